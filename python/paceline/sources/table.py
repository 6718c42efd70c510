"""Rows of an SQLite table in the order of an integer key, one a sample.

    data = ElasticDataset(TableRows("train.db", "events", key="id"), seed=7, block=1024)
    data[0]  # {"id": 1, "text": "…"}

The keys are read once; every 256th is kept, so gaps between them do not matter. Each process opens
the file for itself, for reading only.
"""

import os
import sqlite3
from array import array
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from paceline.data_order import DataError
from paceline.sources.files import Path, files_fingerprint

STRIDE = 256  # rows between two known keys


class TableRows:
    """`rows[7]` is the row with the eighth smallest key, as a dict by column."""

    def __init__(
        self, path: Path, table: str, *, key: str = "rowid", columns: Sequence[str] = ("*",)
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._pid, self._connection = -1, None
        names = [one if one == "*" else _quoted(one) for one in columns]
        self._from = f"FROM {_quoted(table)}"
        self._key = _quoted(key)
        self._select = f"SELECT {', '.join(names)} {self._from}"
        self._keys = array("q")
        self._count = 0
        try:
            for (value,) in self._open().execute(
                f"SELECT {self._key} {self._from} ORDER BY {self._key}"
            ):
                if self._count % STRIDE == 0:
                    self._keys.append(value)
                self._count += 1
        except (sqlite3.Error, TypeError) as error:
            raise DataError(
                what=f"the rows of {table} cannot be listed by {key}",
                where=self.path,
                why=str(error),
                fix="a table of that name with an indexed column of whole numbers as key",
            ) from error
        self._close()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self._count:
            raise IndexError(f"row {index} of {self._count}")
        cursor = self._open().execute(
            f"{self._select} WHERE {self._key} >= ? ORDER BY {self._key} LIMIT 1 OFFSET ?",
            (self._keys[index // STRIDE], index % STRIDE),
        )
        row = cursor.fetchone()
        if row is None:
            raise DataError(
                what=f"row {index} is gone",
                where=self.path,
                why="the table has fewer rows than when it was opened",
                fix="leave the table as it is while it is read",
            )
        return dict(zip((about[0] for about in cursor.description), row, strict=True))

    def fingerprint(self) -> dict[str, object]:
        ends = f"{self._keys[0]} … {self._keys[-1]}" if self._count else ""
        return {"rows": self._count, "keys": ends, **files_fingerprint([self.path])}

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._pid != os.getpid():
            # A connection of the parent is left alone: SQLite's must not cross a fork.
            self._connection = sqlite3.connect(
                f"file:{quote(self.path)}?mode=ro", uri=True, check_same_thread=False
            )
            self._pid = os.getpid()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None, "_pid": -1}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
