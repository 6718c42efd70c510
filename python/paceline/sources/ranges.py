"""Ranges of large files, one a sample: the whole records that begin in it.

    data = ElasticDataset(ByteRanges("crawl.jsonl", size=1 << 20), seed=7)
    data[0]  # the first megabyte, up to the end of the line in which it ends

Nothing is read in advance, so a file of a terabyte opens as fast as a small one. Each byte is in
exactly one sample, because ranges are cut at the ends of records. A range in which no record begins
is empty.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, cast

from paceline._base import arguments
from paceline._data.fingerprint import files_fingerprint
from paceline.errors import DataError
from paceline.sources.files import Path, SharedFile, paths_of

BLOCK = 1 << 16  # bytes that are read at once to find where a record ends
RECORD_BYTES_MAX = 1 << 30


class ByteRanges:
    """`ranges[7]` is the eighth range as bytes, or the result of `decode` on them.

    Args:
        paths: one path or several, in reading order.
        size: bytes of a range, 1 MiB by default. A record that begins in a range is whole in it.
        border: the end of a record, a newline by default. b"\\n\\n" for paragraphs. b"" for equal
            pieces without records (of tokens: their size times n).
        decode: makes a sample of a range's bytes. None: the bytes are the sample.

    Raises:
        DataError: a file is missing, or, at a read, shorter than it was.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        size: int = 1 << 20,
        border: bytes = b"\n",
        decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        self.files = paths_of(paths)
        self.size = arguments.count("ByteRanges", "size", size)
        if not isinstance(cast("object", border), bytes):
            raise arguments.refuse("ByteRanges", "border", border, "bytes", r'border=b"\n"')
        self.border = border
        self._decode = arguments.callback("ByteRanges", "decode", decode)
        self._handles = [SharedFile(path) for path in self.files]
        self._sizes = [os.stat(path).st_size for path in self.files]
        self._starts = [0]  # the number of each file's first range
        for file_bytes in self._sizes:
            self._starts.append(self._starts[-1] + -(-file_bytes // self.size))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"range {index} of {len(self)}")
        which = bisect_right(self._starts, index) - 1
        at = (index - self._starts[which]) * self.size
        begin, end = self._cut(which, at), self._cut(which, at + self.size)
        held = self._handles[which].read(begin, end - begin)
        if len(held) != end - begin:
            raise self._is_shorter(which, index)
        return held if self._decode is None else self._decode(held)

    def fingerprint(self) -> dict[str, object]:
        cut = f"{self.size} bytes, up to {self.border!r}"
        return {"ranges": len(self), "cut": cut, **files_fingerprint(self.files)}

    def _cut(self, which: int, at: int) -> int:
        """The end of the first border that ends at `at` or later; else the file's end."""
        file_bytes = self._sizes[which]
        if at <= 0 or at >= file_bytes or not self.border:
            return min(at, file_bytes)
        offset = begin = max(0, at - len(self.border))
        held = b""
        while offset < file_bytes:
            block = self._handles[which].read(offset, BLOCK)
            if not block:
                raise self._is_shorter(which, at // self.size)
            held += block
            if (found := held.find(self.border)) >= 0:
                return offset + len(block) - len(held) + found + len(self.border)
            offset += len(block)
            held = held[1 - len(self.border) :] if len(self.border) > 1 else b""
            if offset - begin > RECORD_BYTES_MAX:
                raise DataError(
                    what=f"no record ends within {RECORD_BYTES_MAX} bytes of byte {at}",
                    where=self.files[which],
                    why=f"records are taken to end with {self.border!r}",
                    fix='border= what ends them, or border=b"" for pieces of equal size',
                )
        return file_bytes

    def _is_shorter(self, which: int, index: int) -> DataError:
        return DataError(
            what=f"range {index} cannot be read",
            where=self.files[which],
            why="the file is shorter than it was",
            fix="leave the files as they are while they are read",
        )
