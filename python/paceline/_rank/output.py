"""stdout and stderr that do not end a rank when the disk is full.

Ranks write to files of the run directory. On a full disk print() raises OSError, and the training
would die of its log. So output without room is dropped and counted, and the count is written when
there is room again. The progress page has the lines at once, for the launcher to tell at the end.
Other errors are raised as usual.
"""

import errno
import io
import sys
from typing import Any, TextIO

from paceline._rank import progress

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class RoomyFile(io.FileIO):
    """A file for writing: `RoomyFile(1)` writes to stdout and never raises for a full disk."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "wb", closefd=False)
        self.bytes_dropped = 0

    def write(self, data: Any, /) -> int:
        """Write, or drop if the disk is full: `RoomyFile(1).write(b"text")` is 4 either way."""
        size = memoryview(data).nbytes
        try:
            if self.bytes_dropped > 0:
                note = f"[paceline: {self.bytes_dropped} bytes were dropped: the disk was full]\n"
                super().write(note.encode())
                self.bytes_dropped = 0
            return super().write(data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.bytes_dropped += size
            lines = bytes(data).count(b"\n")
            if lines > 0 and (session := progress.session()) is not None:
                session.lines_dropped(lines)
            return size


def outlive_a_full_disk() -> None:
    """Replace the files behind sys.stdout and sys.stderr by `RoomyFile`s."""
    sys.stdout = sys.__stdout__ = _exchanged(sys.stdout)
    sys.stderr = sys.__stderr__ = _exchanged(sys.stderr)


def _exchanged(stream: TextIO) -> TextIO:
    if type(stream) is not io.TextIOWrapper:
        return stream  # a stream that the script or a library replaced
    try:
        fd = stream.fileno()
        stream.flush()
    except (OSError, ValueError):
        return stream
    file = RoomyFile(fd)
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)  # python -u
    return io.TextIOWrapper(
        file if is_unbuffered else io.BufferedWriter(file),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
