"""Rows of Parquet files, one a sample. Needs pyarrow.

    data = ElasticDataset(ParquetRows(sorted(glob("*.parquet"))), seed=7, block=1024, window=16)
    data[0]  # {"id": 1, "text": "…"}

A read decodes a whole row group. Each process keeps the newest `groups` of them in memory. A full
shuffle would read a group for each row: use a `block` of about a group's rows, and `groups` of at
least `window`.
"""

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from paceline._base import arguments
from paceline._data.fingerprint import files_fingerprint
from paceline.errors import DataError
from paceline.sources.files import Path, paths_of


class ParquetRows:
    """`rows[7]` is the eighth row as a dict by column. All files must have the first one's columns.

    Args:
        paths: one path or several, in reading order.
        columns: the columns to read. None: all.
        groups: decoded row groups that each process keeps in memory; default 16.

    Raises:
        DataError: a file is missing, is no Parquet file, or lacks a column.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        columns: Sequence[str] | None = None,
        groups: int = 16,
    ) -> None:
        groups = arguments.count("ParquetRows", "groups", groups)
        self.files = paths_of(paths)
        self._columns = None
        if columns is not None:
            fix = 'columns=["text"]'
            self._columns = arguments.texts("ParquetRows", "columns", columns, fix=fix)
        self._groups_max = groups
        self._places: list[tuple[int, int]] = []  # file and row group
        self._starts = [0]
        self._pid, self._held = -1, OrderedDict[int, pyarrow.Table]()
        for which, path in enumerate(self.files):
            try:
                about = pyarrow.parquet.read_metadata(path)
                missing = set(self._columns or ()) - set(about.schema.to_arrow_schema().names)
            except (OSError, pyarrow.ArrowException) as error:
                raise _unreadable(path, str(error)) from error
            if missing:
                raise _unreadable(path, f"it has no column {sorted(missing)[0]}")
            for group in range(about.num_row_groups):
                self._places.append((which, group))
                self._starts.append(self._starts[-1] + about.row_group(group).num_rows)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        number = bisect_right(self._starts, index) - 1
        row = self._group(number).slice(index - self._starts[number], 1)
        return row.to_pylist()[0]

    def fingerprint(self) -> dict[str, object]:
        return {"rows": len(self), **files_fingerprint(self.files)}

    def _group(self, number: int) -> "pyarrow.Table":
        if self._pid != os.getpid():
            self._pid, self._held = os.getpid(), OrderedDict()
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        which, group = self._places[number]
        try:
            # One thread: pyarrow's threads do not survive the fork of a worker.
            with pyarrow.parquet.ParquetFile(self.files[which]) as file:
                table = file.read_row_group(group, columns=self._columns, use_threads=False)
        except (OSError, pyarrow.ArrowException) as error:
            raise _unreadable(self.files[which], str(error)) from error
        self._held[number] = table
        if len(self._held) > self._groups_max:
            self._held.popitem(last=False)
        return table

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_held": OrderedDict(), "_pid": -1}


def _unreadable(path: str, why: str) -> DataError:
    return DataError(
        what="this Parquet file cannot be read",
        where=path,
        why=why,
        fix="Parquet files with the columns that are asked for",
    )
