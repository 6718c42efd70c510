"""Common parts of the sources: files read by position, and their fingerprints."""

import os
from collections.abc import Iterable, Sequence
from typing import cast

from paceline._base import arguments
from paceline.errors import DataError

Path = str | os.PathLike[str]


class SharedFile:
    """A file read by position. Each process opens its own descriptor, so forks share nothing."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._pid, self._descriptor = -1, -1

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes; fewer only at the end of the file."""
        if self._pid != os.getpid():
            # Not closed here: after a fork the old descriptor is the parent's.
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
        if os:  # at the interpreter's end `os` may be None; the kernel closes the file
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
