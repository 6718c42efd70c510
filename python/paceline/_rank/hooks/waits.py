"""Measures how long the script's thread waits for collectives. Waiting is not compute time.

Every wait of Python passes `Work.wait`. The reducer of DDP waits in C++, at the end of backward:
the ring takes the time since its last collective began (client/flight_writer.cc). Waits in compiled
graphs are not measured. On a GPU the host does not wait, so all ranks seem to work all the time.
"""

from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline._native import CollectiveWorks


def watch_waits(module: Any, works: "CollectiveWorks") -> None:
    """Measure the waits of this thread from now on: `watch_waits(distributed_c10d, works)`."""
    work = module.__dict__.get("Work")
    if work is not None:  # None in a torch without distributed
        work.wait = works.wrap_wait(work.wait)
