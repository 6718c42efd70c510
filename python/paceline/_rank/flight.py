"""The flight ring of this rank. Its agent reads the ring when the job hangs.

The ring is a file in memory with one small record for each collective and each change of phase. If
the file cannot be made, the rank trains without it, and the agent reports that there are no
records.
"""

import os
import sys
from types import CodeType, FrameType

from paceline._base.launch import Launch
from paceline._base.wording import say

TYPE_CHECKING = False  # as typing's, whose import would take longer than this whole package
if TYPE_CHECKING:
    from paceline._native import FlightWriter

# The numbers of model/flight_ring.h.
START, DATA, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, COMPILE, EVALUATION, UNKNOWN, END = range(10)

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Flight:
    """Numbers for names, and the innermost line of the script: `Flight(writer).site()`."""

    def __init__(self, writer: "FlightWriter") -> None:
        self.writer = writer
        self._names: dict[object, int] = {}
        # By id, because hashing a code object hashes all of its constants. The codes are kept
        # alive, so that no other one gets the same id.
        self._is_library: dict[int, tuple[bool, CodeType]] = {}

    def name(self, text: str) -> int:
        """The number of a text in the ring; 0 if the table of texts is full."""
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = self.writer.name(text)
        return number

    def site(self, addition: str = "") -> int:
        """The number of the innermost line outside all libraries, for example "train.py:44".

        `addition` is appended to that text. If the script is itself an installed package, it is the
        innermost line outside torch. In a thread of autograd it is "backward".
        """
        frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        known = self._is_library
        while frame is not None:
            code = frame.f_code
            found = known.get(id(code))
            if found is None:
                found = known[id(code)] = (_is_library(code.co_filename), code)
            if not found[0]:
                return self._line(frame, addition)
            frame = frame.f_back
        return self._package_line(sys._getframe(1), addition)  # pyright: ignore[reportPrivateUsage]

    def _package_line(self, innermost: FrameType, addition: str) -> int:
        frame: FrameType | None = innermost
        while frame is not None:
            file = frame.f_code.co_filename
            if "-packages" + os.sep in file and not _is_torch(file):
                return self._line(frame, addition)
            frame = frame.f_back
        return self.name("backward" + addition)

    def _line(self, frame: FrameType, addition: str) -> int:
        place = (id(frame.f_code), frame.f_lineno, addition)
        number = self._names.get(place)
        if number is None:
            # The code object stays alive: `site` keeps those of scripts, and modules keep those of
            # packages.
            text = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}{addition}"
            number = self._names[place] = self.name(text)
        return number


def _is_library(file: str) -> bool:
    return _is_torch(file) or f"{os.sep}lib{os.sep}python" in file


def _is_torch(file: str) -> bool:
    return file.startswith((_OURS, "<")) or f"{os.sep}torch{os.sep}" in file


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
