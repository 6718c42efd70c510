"""Do the other ranks save at all? The idiom `if rank == 0: save()` makes no step whole.

A rank looks into the arenas of its own host, whose layout is docs/formats/arena.md. Of ranks on
other hosts it knows nothing.
"""

import os
import struct
import time
from collections.abc import Callable

from paceline._base import launch
from paceline._native import SavedStep

# As many saves later, or so much later, a step should be on every rank.
_SAVES = 4
_SECONDS = 5.0
_HEADER = struct.Struct("<8sIIQQ")  # magic, version, slots, bytes of an image, of a control
_HEADER_BYTES = 4096
_SLOT = struct.Struct("<QQ")  # state, generation
_MAGIC = b"PARENA1\0"
_VERSION = 3
_ROOTS = ("/dev/shm/", "/var/tmp/")
_WHOLE = (2, 3)  # states of a slot: sealed, and read just now


class PeerSaves:
    """`peers.sentence(saved)` after each save; once it is what to tell, else it is empty."""

    def __init__(
        self, rank: int, world_size: int, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._others = [one for one in range(world_size) if one != rank]
        self._now = now
        self._first: tuple[int, float] | None = None  # step and time of what all should have
        self._later = 0  # saves since then

    def sentence(self, saved: SavedStep, arena: str) -> str:
        """Of this rank's save, whose arena is at that path; "" if it is not known."""
        if not self._others or not arena:
            return ""
        if self._first is None:
            self._first = (saved.step, self._now())
            return ""
        self._later += 1
        step, began = self._first
        if self._later < _SAVES and self._now() < began + _SECONDS:
            return ""
        self._others = [one for one in self._others if self._lacks(one, arena, saved.generation)]
        self._first, self._later = None, 0
        if not self._others:
            return ""
        late, self._others = self._others, []  # it is told once
        names = ", ".join(str(one) for one in late[:8]) + (", …" if len(late) > 8 else "")
        who = f"rank {names} has" if len(late) == 1 else f"ranks {names} have"
        return f"step {step} is not whole: {who} not saved it; every rank has to call save()"

    def _lacks(self, rank: int, arena: str, generation: int) -> bool:
        """Whether that rank is known to have saved nothing in this world."""
        own = os.path.join(os.path.dirname(arena), f"rank-{rank}.arena")
        beside = [own]
        for begin, other in (_ROOTS, _ROOTS[::-1]):  # memory had no room for some of the ranks
            if own.startswith(begin):
                beside.append(other + own.removeprefix(begin))
        for path in beside:
            try:
                return generation not in whole_images(path)
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                return False
        return launch.has_one_host()


def whole_images(path: str) -> list[int]:
    """The generations of the images in that arena. OSError or ValueError: it cannot be read."""
    found: list[int] = []
    with open(path, "rb", buffering=0) as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise ValueError(path)
        magic, version, slots, _image, control = _HEADER.unpack(header)
        if magic != _MAGIC or version != _VERSION or slots > 8:
            raise ValueError(path)
        for slot in range(slots):
            words = os.pread(file.fileno(), _SLOT.size, _HEADER_BYTES + slot * control)
            if len(words) < _SLOT.size:
                raise ValueError(path)
            state, generation = _SLOT.unpack(words)
            if state & 0xFF in _WHOLE:
                found.append(generation)
    return found
