"""Lines of large files, one a sample.

    data = ElasticDataset(Lines(["a.jsonl", "b.jsonl"], decode=json.loads), seed=7, block=4096)

The files are read once to find where lines begin. Only every 64th position is kept: an eighth of a
byte for each line. An empty last line is not a sample; any other empty line is one.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from paceline._base import arguments
from paceline._data.fingerprint import files_fingerprint
from paceline.errors import DataError
from paceline.sources.files import Path, SharedFile, paths_of

STRIDE = 64  # lines between two known positions
BLOCK = 1 << 20  # bytes that are read at once
LINE_BYTES_MAX = 1 << 30


class Lines:
    """`lines[7]` is the eighth line as bytes without its end, or the result of `decode` on it.

    Args:
        paths: one path or several, in reading order.
        decode: makes a sample of a line's bytes. None: the bytes are the sample.

    Raises:
        DataError: a file is missing, or, at a read, shorter than it was.
    """

    def __init__(
        self, paths: Path | Sequence[Path], *, decode: Callable[[bytes], Any] | None = None
    ) -> None:
        self.files = paths_of(paths)
        self._decode = arguments.callback("Lines", "decode", decode)
        self._handles = [SharedFile(path) for path in self.files]
        self._places: list[array[int]] = []  # position of every 64th line, one list a file
        self._starts = [0]  # the number of each file's first line
        for handle in self._handles:
            places, count = _index(handle)
            self._places.append(places)
            self._starts.append(self._starts[-1] + count)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        which = bisect_right(self._starts, index) - 1
        number = index - self._starts[which]
        line = self._line(which, number)
        return line if self._decode is None else self._decode(line)

    def fingerprint(self) -> dict[str, object]:
        return {"lines": len(self), **files_fingerprint(self.files)}

    def _line(self, which: int, number: int) -> bytes:
        handle = self._handles[which]
        at = self._places[which][number // STRIDE]
        skip, size = number % STRIDE, 1 << 14
        held = handle.read(at, size)
        while True:
            lines = held.split(b"\n", skip + 1)
            is_end = len(held) < size
            if len(lines) > skip + 1 or (is_end and len(lines) == skip + 1):
                return lines[skip].removesuffix(b"\r")
            if is_end or size > LINE_BYTES_MAX:
                raise DataError(
                    what=f"line {number + 1} cannot be read",
                    where=handle.path,
                    why="the file is shorter than it was" if is_end else "the line has no end",
                    fix="leave the files as they are while they are read",
                )
            size *= 4
            held = handle.read(at, size)


def _index(handle: SharedFile) -> "tuple[array[int], int]":
    places = array("Q", [0])
    count = offset = 0
    last = b"\n"
    while block := handle.read(offset, BLOCK):
        at = -1
        while (at := block.find(b"\n", at + 1)) >= 0:
            count += 1
            if count % STRIDE == 0:
                places.append(offset + at + 1)
        offset, last = offset + len(block), block[-1:]
    handle.close()
    return places, count + (last != b"\n")
