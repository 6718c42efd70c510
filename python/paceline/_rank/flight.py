"""The flight ring of this rank. Its agent reads the ring when the job hangs.

The ring is a file in memory with one small record for each collective and each change of phase. If
the file cannot be made, the rank trains without it, and the agent reports that there are no
records.
"""

import os

from paceline._base.launch import Launch
from paceline._base.wording import say

TYPE_CHECKING = False  # as typing's, whose import would take longer than this whole package
if TYPE_CHECKING:
    from paceline._native import FlightWriter

# The numbers of model/flight_ring.h.
START, DATA, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, COMPILE, EVALUATION, UNKNOWN = range(9)
END, RESTORE = 9, 10

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
# torch's file with `all_reduce` and the like.
_FUNCTIONS = os.path.join("torch", "distributed", "distributed_c10d.py")


class Flight:
    """Numbers for names, and the innermost line of the script: `Flight(writer).site()`."""

    def __init__(self, writer: "FlightWriter") -> None:
        from paceline._native import CallSites

        self.writer = writer
        self._names: dict[str, int] = {}
        self.sites = CallSites(self.name, _kind_of_file)

    def name(self, text: str) -> int:
        """The number of a text in the ring; 0 if the table of texts is full."""
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = self.writer.name(text)
        return number

    def site(self, addition: str = "") -> int:
        """The number of the innermost line outside all libraries, for example "train.py:44".

        `addition` is appended to that text. bindings/call_sites.h says which line is meant.
        """
        return self.sites.line(addition)


# The numbers of bindings/call_sites.h.
_SCRIPT, _PACKAGE, _TORCH, _COLLECTIVES = range(4)


def _kind_of_file(file: str) -> int:
    if file.endswith(_FUNCTIONS):
        return _COLLECTIVES
    if file.startswith((_OURS, "<")) or f"{os.sep}torch{os.sep}" in file:
        return _TORCH
    if "-packages" + os.sep in file:
        return _PACKAGE
    return _TORCH if f"{os.sep}lib{os.sep}python" in file else _SCRIPT


def open_flight(launch: Launch) -> Flight | None:
    """Make this rank's ring. None if the launcher gave no path or there is no room."""
    if launch.ring is None:
        return None
    from paceline._native import FlightWriter

    try:
        writer = FlightWriter.make(launch.ring, launch.generation, launch.rank)
    except (OSError, RuntimeError) as error:
        say(f"no records of this rank's collectives: {error}")
        return None
    os.register_at_fork(after_in_child=writer.leave)
    return Flight(writer)
