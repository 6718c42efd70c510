"""What the sources share: files that any process may read at any place, and what they look like."""

import os
from collections.abc import Iterable, Sequence
from typing import cast

from paceline._base import arguments
from paceline.errors import DataError

Path = str | os.PathLike[str]


class SharedFile:
    """A file that is read by position; each process opens it for itself, so forks share nothing."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._pid, self._descriptor = -1, -1

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes; fewer only at the end of the file."""
        if self._pid != os.getpid():
            # Left open for who has it: after a fork this is the parent's.
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._pid = os.getpid()
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._descriptor, size, offset)
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def close(self) -> None:
        if self._pid == os.getpid():
            os.close(self._descriptor)
        self._pid = -1

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)

    def __del__(self) -> None:
        if os:  # at the end of the interpreter it may be None; the kernel closes the file then
            self.close()


def paths_of(paths: Path | Sequence[Path]) -> list[str]:
    where = "the files of a data set"
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(cast("object", several), Iterable):
        raise arguments.refuse(where, "paths", paths, "a path or several", 'paths="a.jsonl"')
    found = [os.path.abspath(arguments.path(where, "paths", path)) for path in several]
    for path in found:
        if not os.path.isfile(path):
            raise DataError(
                what="a file of the data set cannot be read",
                where=path,
                why="there is no file of this name on this host",
                fix="look at the path; a relative one counts from the working directory",
            )
    return found
