"""Detects that other ranks do not save. With `if rank == 0: save()` no step becomes complete.

A rank looks into the arenas of its own host, whose layout is docs/formats/arena.md. It cannot see
ranks on other hosts.
"""

import os
import struct
import time
from collections.abc import Callable

from paceline._base import launch
from paceline._native import SavedStep

# Every rank should have the step after this many seconds, and after this many times what this rank
# took from its Checkpointer to that save: a restore may be slower on another rank. Later saves do
# not count, because a small state is saved a thousand times while another rank starts.
_SECONDS = 30.0
_STARTS = 3.0
_HEADER = struct.Struct("<8sIIQQ")  # magic, version, slots, bytes of an image, of a control
_HEADER_BYTES = 4096
_SLOT = struct.Struct("<QQ")  # state, generation
_MAGIC = b"PARENA1\0"
_VERSION = 3
_ROOTS = ("/dev/shm/", "/var/tmp/")
_WRITING = 1  # the state of a slot whose save is not complete
_WHOLE = (2, 3)  # states of a complete slot: sealed, and in use by a reader


class PeerSaves:
    """Call `peers.warning(saved, arena)` after each save. It returns the warning once, else "".

    A rank that is only later is not named while it may still be starting, or is in its first save.
    """

    def __init__(
        self, rank: int, world_size: int, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._others = [one for one in range(world_size) if one != rank]
        self._now = now
        self._made = now()
        self._first: tuple[int, float] | None = None  # step and time of the checked save

    def warning(self, saved: SavedStep, arena: str) -> str:
        """Return a warning if other ranks did not save, else "". `arena` is this rank's own."""
        if not self._others or not arena:
            return ""
        if self._first is None:
            self._first = (saved.step, self._now())
            return ""
        step, began = self._first
        waited = self._now() - began
        if waited < max(_SECONDS, _STARTS * (began - self._made)):
            return ""
        self._others = [one for one in self._others if self._lacks(one, arena, saved.generation)]
        self._first = None
        if not self._others:
            return ""
        late, self._others = self._others, []  # one warning only
        names = ", ".join(str(one) for one in late[:8]) + (", …" if len(late) > 8 else "")
        who = f"rank {names} has" if len(late) == 1 else f"ranks {names} have"
        after = f"step {step} is not whole after {waited:.0f} s"
        return f"{after}: {who} not saved it; every rank has to call save()"

    def _lacks(self, rank: int, arena: str, generation: int) -> bool:
        """Whether that rank has saved nothing in this world, and is not about to."""
        own = os.path.join(os.path.dirname(arena), f"rank-{rank}.arena")
        beside = [own]
        for begin, other in (_ROOTS, _ROOTS[::-1]):  # the other root, if memory was full
            if own.startswith(begin):
                beside.append(other + own.removeprefix(begin))
        for path in beside:
            try:
                slots = slots_of(path)
                is_saving = any(state == _WRITING for state, _generation in slots)
                return not is_saving and not any(
                    state in _WHOLE and its == generation for state, its in slots
                )
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                return False
        return launch.has_one_host()


def slots_of(path: str) -> list[tuple[int, int]]:
    """The state and the generation of each slot of an arena. OSError, ValueError: unreadable."""
    found: list[tuple[int, int]] = []
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
            found.append((state & 0xFF, generation))
    return found
