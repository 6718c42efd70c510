"""Follows the collectives of this rank until they are complete, and names their groups.

On a GPU the host runs ahead of the device: a collective that has begun on the host may still wait
on the device. The NCCL path is tested with stand-ins only.
"""

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any

from paceline._rank.flight import Flight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline._native import CollectiveRecorder


class Follower:
    """A thread that looks which collectives are complete, from the first one that needs it.

    Example: `Follower(flight).recorder(operation, group)`. The work is done in
    bindings/collective_works.h; this thread is Python's, so that Python ends it.
    """

    def __init__(self, flight: Flight) -> None:
        from paceline._native import CollectiveWorks

        self._flight = flight
        self._thread: threading.Thread | None = None
        self.works = CollectiveWorks(flight.writer, self._begin)
        os.register_at_fork(after_in_child=self.works.leave)

    def recorder(self, operation: Callable[[Any], str], group: Callable[[], str],
                 ) -> "CollectiveRecorder":
        """The recorder of one process group.

        `operation` returns the text of torch's kind of operation, and `group` that of the group.
        """
        from paceline._native import CollectiveRecorder

        return CollectiveRecorder(self.works, self._flight.sites, self._flight.name, operation,
                                  group)

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._follow, name="paceline", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def _follow(self) -> None:
        while self.works.sleep():
            self.works.look_at_all()

    def _stop(self) -> None:
        """End the thread while Python still runs.

        Python ends a daemon thread when the thread takes the GIL again. Inside torch's
        `is_completed` that unwinds a C++ destructor, and the process aborts.
        """
        self.works.stop()
        if self._thread is not None:
            self._thread.join()
        self.works.look_at_all()


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
