"""The leased batch that the script works on now, for work that has to count exactly once.

    in_hand.want(leave_out)  # from now on, loaders of data sets of fixed size lease whole batches
    batch = in_hand.current()

Embedding tables ask for it. A batch of a data set of fixed size then has the same samples in
whatever process it is read, so that tables can tell a batch that they have applied from a new one.
A stream has no such batches: one that tables have applied in part is handed out in `parts`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

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
    is_divisible: bool = False
    is_pushed: bool = False
    # Of a pushed one that tables have applied in part: half open; each one is applied or not.
    parts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


_is_wanted = False
_leave_out: Callable[[Batch], None] | None = None
_batches: dict[int, Batch] = {}  # by loader, in the order in which they were handed out
_while_waiting: list[Callable[[], None]] = []
_stands: dict[str, Callable[[], "Stand | None"]] = {}  # by data set


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a data set is done, for a manifest."""

    losses: int  # another number after each loss of a table server
    position: dict[str, Any]


def want(leave_out_of_tables: Callable[[Batch], None]) -> None:
    """Ask loaders that have not leased anything yet for whole batches.

    Loaders of streams call `leave_out_of_tables` with a batch on which no step was made.
    """
    global _is_wanted, _leave_out
    _is_wanted = True
    _leave_out = leave_out_of_tables


def is_wanted() -> bool:
    """Whether `want` was called in this process."""
    return _is_wanted


def begin(loader: object, batch: Batch) -> None:
    """The loop of this loader gets a batch."""
    end(loader)
    _batches[id(loader)] = batch


def of(loader: object) -> Batch | None:
    """The batch of the loop of this loader."""
    return _batches.get(id(loader))


def leave_out(batch: Batch) -> None:
    """The tables shall count this batch as applied, with nothing to apply."""
    if _leave_out is not None:
        _leave_out(batch)


def while_waiting(call: Callable[[], None]) -> None:
    """Call this again and again while a loader waits for records of a stream."""
    _while_waiting.append(call)


def wait() -> None:
    """A loader waits, and no batch of it is in hand."""
    for call in _while_waiting:
        call()


def keep_stand(data_set: str, ask: Callable[[], "Stand | None"] | None) -> None:
    """Notes that this process leases the data set. `ask` returns how far all workers together have
    done it; None says that this process has stopped leasing it.
    """
    if ask is None:
        _stands.pop(data_set, None)
    else:
        _stands[data_set] = ask


def stands() -> list[Stand] | None:
    """Of each data set that this process leases. None: the ledger does not answer now."""
    found = [ask() for ask in _stands.values()]
    return None if None in found else [one for one in found if one is not None]


def end(loader: object) -> None:
    """The loop of this loader has no batch any more."""
    _batches.pop(id(loader), None)


def current() -> Batch | None:
    """The batch that was handed out last, if its loop still works on it."""
    return next(reversed(_batches.values()), None)
