"""Samples of tar files as WebDataset writes them: members that share a name up to its first dot.

    data = ElasticDataset(TarSamples(sorted(glob("train-*.tar"))), seed=7, block=1000)
    data[0]  # {"__key__": "0001", "jpg": b"…", "cls": b"3"}

The headers of all members are read once. Samples are then read in any order, one read a member.
"""

import os
import tarfile
from collections.abc import Callable, Sequence
from typing import Any

from paceline._base import arguments
from paceline._data.fingerprint import files_fingerprint
from paceline.errors import DataError
from paceline.sources.files import Path, SharedFile, paths_of

Members = tuple[tuple[str, int, int], ...]  # ending, offset, bytes


class TarSamples:
    """`samples[7]` is a dict of bytes by ending, or the result of `decode` on it.

    Args:
        paths: one path or several uncompressed tar files, in reading order.
        decode: makes a sample of that dict. None: the dict is the sample.

    Raises:
        DataError: a file is missing, or is no uncompressed tar file.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        decode: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.files = paths_of(paths)
        self._decode = arguments.callback("TarSamples", "decode", decode)
        self._handles = [SharedFile(path) for path in self.files]
        self._samples: list[tuple[int, str, Members]] = []  # file, key, members
        for which, path in enumerate(self.files):
            self._index(which, path)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        which, key, members = self._samples[index]
        found: dict[str, Any] = {"__key__": key}
        for ending, offset, size in members:
            held = self._handles[which].read(offset, size)
            if len(held) < size:
                raise DataError(
                    what=f"{key}.{ending} cannot be read",
                    where=self.files[which],
                    why=f"{len(held)} of its {size} bytes are there",
                    fix="the tar file as it was when it was opened",
                )
            found[ending] = held
        return found if self._decode is None else self._decode(found)

    def fingerprint(self) -> dict[str, object]:
        return {"samples": len(self), **files_fingerprint(self.files)}

    def _index(self, which: int, path: str) -> None:
        open_key, members = "", list[tuple[str, int, int]]()

        def close() -> None:
            if members:
                self._samples.append((which, open_key, tuple(members)))
                members.clear()

        try:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    if not member.isreg():
                        continue
                    folder, name = os.path.split(member.name)
                    stem, _, ending = name.partition(".")
                    key = os.path.join(folder, stem)
                    if key != open_key or any(ending == one[0] for one in members):
                        close()
                        open_key = key
                    members.append((ending, member.offset_data, member.size))
        except tarfile.TarError as error:
            raise DataError(
                what="this is no tar file whose members can be read at their places",
                where=path,
                why=str(error),
                fix="an uncompressed tar file",
            ) from error
        close()
