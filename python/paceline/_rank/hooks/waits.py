"""Measures how long the script's thread waits for collectives, which is no work of its own.

Every wait of Python passes `Work.wait`. The reducer of DDP waits in C++, at the end of backward:
the ring takes the time since its last collective began (client/flight_writer.cc). Nobody sees the
waits of compiled graphs. On a GPU the host does not wait, so all ranks seem to work all the time.
"""

import functools
from threading import get_ident
from time import monotonic_ns
from typing import Any

from paceline._rank.flight import Flight


def watch_waits(module: Any, flight: Flight) -> None:
    """Measure the waits of this thread from now on: `watch_waits(distributed_c10d, flight)`."""
    work = module.__dict__.get("Work")
    if work is None:  # a torch without distributed
        return
    wait = work.wait
    waited = flight.writer.waited
    own = get_ident()

    @functools.wraps(wait)
    def waits(self: Any, *args: Any, **kwargs: Any) -> Any:
        if get_ident() != own:
            return wait(self, *args, **kwargs)
        begun = monotonic_ns()
        try:
            return wait(self, *args, **kwargs)
        finally:
            waited(begun)

    work.wait = waits
