"""How torch's distributed checkpoint is told that it works in one process."""

import inspect
from typing import Any

from torch.distributed.checkpoint.state_dict_saver import save

# Before 2.5 torch finds that out by itself.
ALONE: dict[str, Any] = {"no_dist": True} if "no_dist" in inspect.signature(save).parameters else {}
