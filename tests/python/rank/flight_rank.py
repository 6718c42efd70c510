"""One rank whose collectives and phases are recorded: `python flight_rank.py SCRIPT [ARGUMENT…]`.

It does what the bootstrap does with PACELINE_RING, without an agent. Scripts import `entries` and
`wait_until` from it to look at their own ring.
"""

import atexit
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline._base.launch import Launch
from paceline._rank.flight import open_flight
from paceline._rank.hooks.collectives import watch_collectives
from paceline._rank.hooks.computing import watch_phases

from paceline import _native

DEADLINE_SECONDS = 60.0


def reading() -> dict[str, Any]:
    """This process' own ring."""
    return _native.read_ring(Path(os.environ["PACELINE_RING"]).read_bytes())


def entries(*, kinds: tuple[int, ...] = (1, 2)) -> list[dict[str, Any]]:
    """The records of this process' own ring, of those kinds."""
    return [entry for entry in reading()["entries"] if entry["kind"] in kinds]


def phases() -> list[str]:
    """The phases that this process went through."""
    return [entry["operation"] for entry in entries(kinds=(3,))]


def wait_until(holds: Callable[[], bool]) -> None:
    """Returns when it holds; the deadline is only for a test that fails."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.001)


_status = 0


def _failed(*error: Any) -> None:
    global _status
    _status = 1
    sys.__excepthook__(*error)


def _leave() -> None:
    """Ends the process before C++ does: torch 2.15's gloo aborts there in one run of six."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)


def main() -> None:
    atexit.register(_leave)  # the first registered runs last
    sys.excepthook = _failed
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parent))
    flight = open_flight(Launch.from_environment())
    assert flight is not None or "PACELINE_RING" not in os.environ
    if flight is not None:
        watch_phases(flight, watch_collectives(flight))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
