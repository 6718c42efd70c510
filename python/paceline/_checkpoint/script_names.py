"""The names that `paceline.torch` and `paceline.numpy` have in common.

`step`, `saved`, `phase` and the other names of `paceline` are defined in `paceline._rank.progress`.
"""

import paceline
from paceline import *  # noqa: F403
from paceline._checkpoint.ticket import Ticket
from paceline._restore.loading import Loaded
from paceline.errors import ArgumentError, CheckpointError, PacelineError

__all__ = ["ArgumentError", "CheckpointError", "Loaded", "PacelineError", "Ticket"]
__all__ += paceline.__all__
