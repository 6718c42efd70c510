"""The leased batch that the script works on now, for work that has to count exactly once.

    in_hand.want()  # from now on, loaders lease whole batches
    batch = in_hand.current()

Embedding tables ask for it. A batch then has the same samples in whatever process it is read, so
that tables can tell a batch that they have applied from a new one.
"""

from dataclasses import dataclass, field
from itertools import count

_numbers = count(1)


@dataclass(kw_only=True)
class Batch:
    """The batch that a loop trains on: `Batch(data_set="clicks", ordinals=[(0, 64)], …)`."""

    data_set: str
    ordinals: list[tuple[int, int]]  # half open
    rank: int
    incarnation: int
    obstacle: str  # why it may be divided after a failure: "", "late" or "checkpoint"
    number: int = field(default_factory=lambda: next(_numbers))  # in this process
    is_pushed: bool = False


_is_wanted = False
_batches: dict[int, Batch] = {}  # by loader, in the order in which they were handed out


def want() -> None:
    """Ask loaders that have not leased anything yet for whole batches."""
    global _is_wanted
    _is_wanted = True


def is_wanted() -> bool:
    """Whether `want` was called in this process."""
    return _is_wanted


def begin(loader: object, batch: Batch) -> None:
    """The loop of this loader gets a batch."""
    end(loader)
    _batches[id(loader)] = batch


def end(loader: object) -> None:
    """The loop of this loader has no batch any more."""
    _batches.pop(id(loader), None)


def current() -> Batch | None:
    """The batch that was handed out last, if its loop still works on it."""
    return next(reversed(_batches.values()), None)
