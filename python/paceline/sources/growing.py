"""A folder of Parquet files that become more. A file is a partition that ends.

Files with names that begin with `.` or `_` are not read. In a folder that Spark's file sink writes,
the files are those of its log, `_spark_metadata`. A file has to be complete when it gets its name:
write it under a hidden name, and rename it.
"""

import glob
import json
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from paceline.errors import DataError
from paceline.sources.live import Part, Records, Start

ROWS = 4096  # of a file that are decoded at once
TELL_SECONDS = 5.0  # until a stream without files says so
LOOK_SHARE = 0.05  # of the time, at most, is spent on looking for new files


def open_source(url: str, start: Start, settings: Mapping[str, str]) -> "Growing":
    return Growing(url, start, settings)


class Growing:
    """Files by a pattern: `Growing("files:///data/clicks/*.parquet", "earliest", {})`."""

    is_eager = False

    def __init__(self, url: str, start: Start, settings: Mapping[str, str]) -> None:
        import pyarrow.parquet

        self._parquet: Any = pyarrow.parquet
        parts = urlsplit(url)
        self._pattern = unquote(parts.path)
        if parts.netloc or not self._pattern.strip("/"):
            raise DataError(
                what="the stream's URL names no files",
                where=url,
                why="it needs an absolute path after files://, with a pattern",
                fix="files:///data/clicks/*.parquet",
            )
        self._began: float | None = time.monotonic()  # None: a file was found, or its lack was told
        self._where = f"the files {self._pattern}"
        if start not in ("earliest", "latest") or settings:
            raise DataError(
                what="files have no start time and no settings",
                where=self._where,
                why=f"start={start!r} and {len(settings)} settings were given",
                fix='start="earliest", or start="latest" to leave out the files that are there',
            )
        self._leaves_out = start == "latest"  # what the first look finds
        self._look_after = 0.0
        self._written: dict[str, set[str]] = {}  # by file of Spark's log: names of its files
        self._known: dict[str, Part] = {}
        self._unread: set[str] = set()  # told as unreadable
        self._readers: dict[str, Iterator[Records]] = {}
        self._rest: dict[str, Records] = {}  # rows that a poll has left over
        self._schema: tuple[str, Any] | None = None

    def partitions(self) -> list[Part]:
        began = time.monotonic()
        if began >= self._look_after:
            self._look()
            now = time.monotonic()
            self._look_after = now + (now - began) * (1 / LOOK_SHARE - 1)
        return list(self._known.values())

    def _look(self) -> None:
        for path in self._paths():
            if path in self._known:
                continue
            try:
                if not stat.S_ISREG(os.stat(path).st_mode):
                    raise ValueError("it is no regular file")
                rows = self._parquet.ParquetFile(path).metadata.num_rows
            except Exception as error:
                if path not in self._unread:
                    self._unread.add(path)
                    logging.getLogger("paceline").warning(
                        "%s is not a complete Parquet file yet: %s", path, error)
                continue
            if rows > 0:
                self._known[path] = Part(path, rows if self._leaves_out else 0, rows)
        if self._known:
            self._began = None
        elif self._began is not None and time.monotonic() - self._began > TELL_SECONDS:
            self._began = None
            folder = os.path.dirname(self._pattern)
            logging.getLogger("paceline").warning(
                "%s: none is there yet%s; waiting for the first one", self._where,
                "" if glob.glob(folder) else f", and there is no folder {folder}")
        if self._leaves_out:
            # The ledger learns by it that the stream has begun, if there is no file yet.
            self._known[self._pattern] = Part(self._pattern, 1, 1)
            self._leaves_out = False

    def open(self, name: str, offset: int) -> int:
        self._rest.pop(name, None)
        self._readers[name] = self._records(name, offset)
        return offset

    def poll(self, most: int, seconds: float) -> list[Records]:
        found: list[Records] = []
        for name, reader in list(self._readers.items()):
            while most > 0 and (rows := self._rest.pop(name, None) or next(reader, None)):
                taken = min(most, len(rows.values))
                if taken < len(rows.values):
                    self._rest[name] = rows.part(taken, len(rows.values))
                found.append(rows.part(0, taken))
                most -= taken
        if not found:
            time.sleep(seconds)
        return found

    def end(self, name: str) -> int | None:
        part = self._known.get(name)
        return part.records if part is not None else None

    def close(self, name: str | None = None) -> None:
        for kept in (self._readers, self._rest):
            if name is None:
                kept.clear()
            else:
                kept.pop(name, None)

    def _paths(self) -> list[str]:
        shown = [path for path in glob.glob(self._pattern)
                 if not os.path.basename(path).startswith((".", "_"))]
        folders = {os.path.dirname(path) for path in shown}
        written = {folder: self._of_spark(folder) for folder in folders}
        return sorted(
            path for path in shown
            if (names := written[os.path.dirname(path)]) is None
            or os.path.basename(path) in names)

    def _of_spark(self, folder: str) -> set[str] | None:
        """The names of the files that Spark has committed. None: Spark does not write here."""
        log = os.path.join(folder, "_spark_metadata")
        if not os.path.isdir(log):
            return None
        names: set[str] = set()
        for path in glob.glob(os.path.join(log, "[0-9]*")):
            if path not in self._written:
                try:
                    self._written[path] = _names_in(path)
                except FileNotFoundError:
                    continue  # Spark has put it into a later, compact one
            names |= self._written[path]
        return names

    def _records(self, path: str, offset: int) -> Iterator[Records]:
        try:
            file = self._parquet.ParquetFile(path)
        except OSError as error:
            raise DataError(
                what="a file of the stream cannot be read",
                where=path,
                why=str(error),
                fix="leave files where they are until they are read, or restore this one",
            ) from error
        self._check(path, file.schema_arrow)
        at = first = 0
        groups: list[int] = []
        for number in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            if at + rows > offset:
                groups.append(number)
            else:
                first = at + rows
            at += rows
        at = first
        for batch in file.iter_batches(ROWS, row_groups=groups):
            left_out = min(max(offset - at, 0), len(batch))
            if left_out < len(batch):
                yield Records(path, at + left_out, batch[left_out:])
            at += len(batch)

    def _check(self, path: str, schema: Any) -> None:
        if self._schema is None:
            self._schema = (path, schema)
        first, wanted = self._schema
        if not schema.equals(wanted):
            raise DataError(
                what="the schema of the stream has changed",
                where=path,
                why=f"its columns are {_columns(schema)}; those of {first} are {_columns(wanted)}",
                fix="write files of another schema into another folder, as another stream",
                is_final=True,  # the next process would take this schema for the first one
            )


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _names_in(path: str) -> set[str]:
    """The files that a file of Spark's log names. It does not change once it has its name."""
    names: set[str] = set()
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return names  # a pipe or a device would block, or never end
        for line in file:
            if line.startswith("{"):
                entry = json.loads(line)
                if entry.get("action") == "add":
                    names.add(os.path.basename(unquote(entry["path"])))
    return names
