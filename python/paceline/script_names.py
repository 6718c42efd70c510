"""The names that scripts find in `paceline.torch` and `paceline.numpy` alike."""

import paceline
from paceline import *  # noqa: F403
from paceline.arguments import ArgumentError
from paceline.loading import Loaded
from paceline.plan import CheckpointError
from paceline.problem import PacelineError
from paceline.ticket import Ticket

__all__ = ["ArgumentError", "CheckpointError", "Loaded", "PacelineError", "Ticket"]
__all__ += paceline.__all__
