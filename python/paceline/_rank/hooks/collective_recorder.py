"""Records the collectives of a process group, and when each is complete.

On a GPU the host runs ahead of the device: a collective that has begun on the host may still wait
on the device. The NCCL path is tested with stand-ins only.
"""

import atexit
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from paceline._rank.flight import Flight

# At most this many incomplete collectives are followed, the newest ones, because a hang is about
# these. Each reference keeps its tensors alive.
WORKS_MAX = 64
_LOOK_SECONDS = 0.05
_POINT_TO_POINT = {"send", "recv"}


class Follower:
    """Records when collectives are complete: `Follower(writer.complete).add(number, work)`.

    The training thread takes no lock and wakes no thread. Torch releases the GIL while it looks at
    a Work, and gets it back after up to 5 ms if other threads run Python; a lock would stop the
    training for as long. So both threads may look at one Work, and the one that removes it from the
    queue records it.
    """

    def __init__(self, complete: Callable[[int], None]) -> None:
        self._complete = complete
        self._works: deque[tuple[int, Any]] = deque()
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._kept: deque[tuple[int, Any]] = deque()
        os.register_at_fork(after_in_child=self._leave)

    def add(self, number: int, work: Any) -> None:
        """Follow `work`, the collective with that number, until it is complete."""
        self._works.append((number, work))
        if len(self._works) > WORKS_MAX:
            oldest = self._oldest()
            if oldest is not None:
                self._finish(oldest)
        if self._thread is None:
            self._begin()

    def look(self) -> int:
        """Record complete collectives from the oldest to the first incomplete one; how many.

        Called at each collective, because a Work keeps its tensors in memory. On a GPU one look
        takes microseconds, and most collectives complete in order.
        """
        finished = 0
        while True:
            oldest = self._oldest()
            if oldest is None or not _is_complete(oldest[1]):
                return finished
            finished += self._finish(oldest)

    def look_at_all(self) -> None:
        """Record every collective that is complete by now, in any order."""
        if self.look():
            return
        try:
            works = list(self._works)
        except RuntimeError:  # the other thread has just changed it
            return
        for one in works:
            if _is_complete(one[1]):
                self._finish(one)

    def _oldest(self) -> tuple[int, Any] | None:
        try:
            return self._works[0]
        except IndexError:
            return None

    def _finish(self, one: tuple[int, Any]) -> bool:
        try:
            self._works.remove(one)  # by number: no two are equal
        except ValueError:  # the other thread was faster
            return False
        self._complete(one[0])
        return True

    def _begin(self) -> None:
        if self._ends.is_set():  # in a forked child, or at the process' end
            self._works.clear()
            return
        self._thread = threading.Thread(target=self._follow, name="paceline", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def _follow(self) -> None:
        while not self._ends.wait(_LOOK_SECONDS):
            if self._works:
                self.look_at_all()

    def _stop(self) -> None:
        """End the thread while Python still runs.

        Python ends a daemon thread when the thread takes the GIL again. Inside torch's
        `is_completed` that unwinds a C++ destructor, and the process aborts.
        """
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        self.look_at_all()

    def _leave(self) -> None:
        """In a forked child: forget the works. The parent's thread follows them."""
        # Kept: a Work that is destroyed in a child would wait for threads that the child lacks.
        self._kept, self._works = self._works, deque()
        self._thread = None
        self._ends.set()


def _is_complete(work: Any) -> bool:
    try:
        return work.is_completed()
    except RuntimeError:  # of a device that has failed
        return False


class Recorder:
    """Records the collectives of one process group.

    `group` returns the group's text. It is called at the first collective.

    Example: `number = recorder.begin("all_reduce", [tensor])`, then `recorder.end(number, …)`.
    """

    def __init__(self, flight: Flight, follower: Follower, group: Callable[[], str]) -> None:
        self._flight = flight
        self._write = flight.writer.begin
        self._complete = flight.writer.complete
        self._site = flight.site
        self._follower = follower
        self._group_text = group
        self._group = 0
        self._sequence = itertools.count(1).__next__
        self._operations: dict[str, tuple[int, bool]] = {}
        self._dtypes: dict[object, int] = {}
        # By operation: whether its Work never reports completion, as gloo's reduce_scatter.
        self._silent: dict[str, bool] = {}
        self._unsaid: list[int] = []

    def begin(self, operation: str, tensors: list[Any]) -> int:
        """Record that this rank enters `operation` with `tensors`. Returns the record's number."""
        self._follower.look()
        if self._unsaid:
            self._say()
        name, is_counted = self._operations.get(operation) or self._learn(operation)
        size, dtype = 0, 0
        if tensors:
            dtype = self._dtypes.get(tensors[0].dtype) or self._learn_dtype(tensors[0].dtype)
            for tensor in tensors:
                size += tensor.numel() * tensor.element_size()
        sequence = self._sequence() if is_counted else 0
        return self._write(self._group, name, dtype, self._site(), sequence, size)

    def _learn(self, operation: str) -> tuple[int, bool]:
        if not self._operations:
            self._group = self._flight.name(self._group_text())
        known = (self._flight.name(operation), operation not in _POINT_TO_POINT)
        self._operations[operation] = known
        return known

    def _learn_dtype(self, dtype: object) -> int:
        number = self._flight.name(str(dtype).removeprefix("torch."))
        self._dtypes[dtype] = number
        return number

    def _say(self) -> None:
        """Mark silent collectives complete: this rank is past them, its peers perhaps not."""
        unsaid, self._unsaid = self._unsaid, []
        for number in unsaid:
            self._complete(number)

    def end(self, number: int, operation: str, work: Any) -> None:
        """The call was issued. It is complete when `work` says so, or at once without a `work`."""
        if work is None:
            self._complete(number)
            return
        silent = self._silent.get(operation)
        if silent is None:
            silent = self._silent[operation] = _is_silent(work)
        if silent and not work.is_completed():
            self._unsaid.append(number)
        else:
            self._follower.add(number, work)


def _is_silent(work: Any) -> bool:
    """Whether `work` has no future; its `is_completed` is then always False."""
    try:
        work.get_future()
    except (RuntimeError, NotImplementedError):
        return True
    return False


def members_text(ranks: list[int]) -> str:
    """Ranks as runs: `members_text([0, 1, 2, 8])` is "0-2,8"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def group_text(module: Any, name: str, size: int) -> str:
    """A group's name and members, such as "3 0-1". Torch knows them after the registration."""
    world = module._world
    ranks: list[int] = []
    for pg, its_name in list(world.pg_names.items()):
        if its_name == name:
            ranks = list(world.pg_group_ranks.get(pg, ()))
    text = f"{name} {members_text(ranks or list(range(size)))}"
    return text if len(text) < 128 else name
