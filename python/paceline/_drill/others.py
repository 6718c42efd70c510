"""When the other ranks of this node wait, as their flight rings show: for scripts whose fault is
to find each of them in the collective that this rank does not enter."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from paceline import _native


def collectives(ring: Path) -> dict[tuple[str, int], bool]:
    """Group and number of each collective that the rank has begun: whether it has left it."""
    entries: Any = _native.read_ring(ring.read_bytes())["entries"]
    return {(entry["group"], entry["sequence"]): entry["completed_ns"] != 0
            for entry in entries if entry["sequence"] != 0}


def until_others_wait() -> None:
    """Until each other rank is in a collective that this rank has not begun."""
    own = Path(os.environ["PACELINE_RING"])
    begun = collectives(own)
    mark = own.name.partition(".")[2]
    world = range(int(os.environ["WORLD_SIZE"]))
    others = [own.with_name(f"rank-{local}.{mark}") for local in world
              if local != int(os.environ["LOCAL_RANK"])]
    while not all(any(not has_left and call not in begun
                      for call, has_left in collectives(other).items()) for other in others):
        time.sleep(0.005)
