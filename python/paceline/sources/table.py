"""Rows of a table in the order of an integer key, one a sample: SQLite, or any DB-API 2 database.

    data = ElasticDataset(TableRows("train.db", "events", key="id"), seed=7, block=1024)
    data[0]  # {"id": 1, "text": "…"}

    rows = TableRows(lambda: pyodbc.connect("DSN=lake"), "events", key="id")

The keys are read once and every 64th is kept, so gaps between keys do not matter. Rows are read in
ranges of 64, and the last ranges are kept: with `block=` most reads need no query. Each process has
its own connection.
"""

import os
import re
import sqlite3
from array import array
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from paceline._base import arguments
from paceline._data.fingerprint import files_fingerprint
from paceline.errors import DataError
from paceline.sources.files import Path

STRIDE = 64  # rows between two known keys
_KEYS_AT_ONCE = 4096
_NAME_BYTES_MAX = 4096
_PLAIN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")  # needs no quotes; may have a schema


class TableRows:
    """`rows[7]` is the row with the eighth smallest key, as a dict by column.

    Args:
        source: the path of an SQLite file, which is only read; or a function without arguments that
            makes a DB-API connection (PEP 249), such as pyodbc's or psycopg's.
        table: its name, with a schema if the database has them.
        key: a column of distinct whole numbers, which should have an index.
        columns: the columns to read; default all.

    Raises:
        DataError: the rows cannot be listed by that key.
    """

    def __init__(
        self,
        source: Path | Callable[[], Any],
        table: str,
        *,
        key: str = "rowid",
        columns: Sequence[str] = ("*",),
    ) -> None:
        where = "TableRows"
        path = "" if callable(source) else arguments.path(where, "source", source)
        table = arguments.text(where, "table", table, bytes_max=_NAME_BYTES_MAX)
        key = arguments.text(where, "key", key, bytes_max=_NAME_BYTES_MAX)
        columns = arguments.texts(where, "columns", columns, fix='columns=["text"]')
        self.path = os.path.abspath(path) if path else ""
        self._connect = source if callable(source) else None
        self._pid, self._connection = -1, None
        self._key, self._table = _quoted(key), _quoted(table)
        self._columns = ", ".join(one if one == "*" else _quoted(one) for one in columns)
        self._keys = array("q")
        self._count, self._last = 0, None
        self._group: tuple[int, list[dict[str, Any]]] = (-1, [])
        try:
            self._read_keys()
        except Exception as error:  # each database has its own errors
            raise DataError(
                what=f"the rows of {table} cannot be listed by {key}",
                where=self._where,
                why=str(error),
                fix="a table of that name with an indexed column of whole numbers, each of them "
                "once, as key",
            ) from error
        self._close()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self._count:
            raise IndexError(f"row {index} of {self._count}")
        number, skip = divmod(index, STRIDE)
        if self._group[0] != number:
            self._group = (number, self._read_group(number))
        rows = self._group[1]
        if len(rows) != min(STRIDE, self._count - number * STRIDE):
            raise DataError(
                what=f"the table changed around row {index}",
                where=self._where,
                why=f"{len(rows)} rows are where {STRIDE} were when it was opened",
                fix="leave the table as it is while it is read",
            )
        return dict(rows[skip])

    def fingerprint(self) -> dict[str, object]:
        ends = f"{self._keys[0]} … {self._last}" if self._count else ""
        files = files_fingerprint([self.path]) if self.path else {}
        return {"rows": self._count, "keys": ends, **files}

    @property
    def _where(self) -> str:
        return self.path or "the database"

    def _read_keys(self) -> None:
        cursor = self._open().cursor()
        cursor.execute(f"SELECT {self._key} FROM {self._table} ORDER BY {self._key}")
        while several := cursor.fetchmany(_KEYS_AT_ONCE):
            for (value,) in several:
                if self._last is not None and value <= self._last:
                    raise ValueError(f"{value} is there more than once")
                if self._count % STRIDE == 0:
                    self._keys.append(value)
                self._count, self._last = self._count + 1, value

    def _read_group(self, number: int) -> list[dict[str, Any]]:
        is_last = number + 1 == len(self._keys)
        end = f"<= {self._last}" if is_last else f"< {self._keys[number + 1]}"
        cursor = self._open().cursor()
        # The keys are ints, so the query needs no parameters, whose style differs between
        # databases.
        cursor.execute(
            f"SELECT {self._columns} FROM {self._table} WHERE {self._key} >= {self._keys[number]} "
            f"AND {self._key} {end} ORDER BY {self._key}"
        )
        names = [about[0] for about in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _open(self) -> Any:
        if self._connection is None or self._pid != os.getpid():
            # The parent's connection is not closed: a connection must not be used after a fork.
            if self._connect is not None:
                self._connection = self._connect()
            else:
                place = f"file:{quote(self.path)}?mode=ro"
                self._connection = sqlite3.connect(place, uri=True, check_same_thread=False)
            self._pid = os.getpid()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None, "_pid": -1}


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
