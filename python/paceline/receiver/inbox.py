"""The receiver's folder: parts in files, and in SQLite which of them are committed.

    inbox = Inbox("inbox")
    name = PartName("clicks", "etl", "7", "0", "0")
    part = inbox.begin(name, schema)
    part.add(batch)
    receipt = inbox.stage(name, part)         # durable, and visible to nobody
    inbox.commit("clicks", "etl", "7", [receipt])  # all of the epoch at once, or nothing

Format and guarantees: docs/formats/sink.md. Calls may come from several threads.
"""

import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow
import pyarrow.ipc

from paceline.receiver import record_ids
from paceline.receiver.folder import is_own_folder, is_part, open_folder
from paceline.receiver.names import PartName, Receipt, checked_name
from paceline.receiver.part_file import PartFile, plain, read_from, shown, sync_folder
from paceline.receiver.refusal import Refusal
from paceline.receiver.row_digest import added

STAGED_SECONDS_MAX = 7 * 86_400
_TABLES = """
CREATE TABLE IF NOT EXISTS streams (
  stream TEXT PRIMARY KEY, schema BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ends (
  stream TEXT NOT NULL, partition INTEGER NOT NULL, low INTEGER NOT NULL, end INTEGER NOT NULL,
  PRIMARY KEY (stream, partition));
CREATE TABLE IF NOT EXISTS epochs (
  number INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, app TEXT NOT NULL,
  epoch TEXT NOT NULL, digest TEXT NOT NULL, rows INTEGER NOT NULL, at REAL NOT NULL,
  UNIQUE (stream, app, epoch));
CREATE TABLE IF NOT EXISTS parts (
  stream TEXT NOT NULL, partition INTEGER NOT NULL, first INTEGER NOT NULL,
  rows INTEGER NOT NULL, file TEXT NOT NULL, epoch INTEGER NOT NULL,
  PRIMARY KEY (stream, partition, first));
CREATE INDEX IF NOT EXISTS parts_by_epoch ON parts (epoch);
CREATE TABLE IF NOT EXISTS staged (
  stream TEXT NOT NULL, app TEXT NOT NULL, epoch TEXT NOT NULL, writer TEXT NOT NULL,
  attempt TEXT NOT NULL, file TEXT NOT NULL, rows INTEGER NOT NULL, digest TEXT NOT NULL,
  schema BLOB NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (stream, app, epoch, writer, attempt));
"""


class Inbox:
    def __init__(self, folder: str, *, partitions: int = 16) -> None:
        self.folder = os.path.abspath(folder)
        self._partitions = partitions
        open_folder(self.folder)
        self._lock_file: Any = open(  # noqa: SIM115  held until the process ends
            os.path.join(self.folder, "lock"), "a")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal(
                what="another receiver serves this folder",
                where=self.folder,
                why="its file `lock` is held by a process that runs",
                fix="stop that receiver, or give each its own --dir",
                code="PL-E220",
            ) from None
        self._mutex = threading.Lock()
        self._db = sqlite3.connect(
            os.path.join(self.folder, "inbox.db"), isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_TABLES + record_ids.TABLES)
        self._sweep()

    def close(self) -> None:
        with self._mutex:
            self._db.close()
        self._lock_file.close()

    # ---- writing ----

    def begin(self, name: PartName, schema: Any) -> PartFile:
        """A file for this part. The schema has to be that of the stream, if there is one."""
        self._must_fit(name.stream, plain(schema))
        folder = os.path.join(self.folder, "parts", name.stream)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            sync_folder(os.path.dirname(folder))
        return PartFile(os.path.join(folder, f"{secrets.token_hex(12)}.arrow"), schema)

    def stage(self, name: PartName, part: PartFile) -> Receipt:
        """Makes the part durable. An earlier one of the same writer and attempt is replaced."""
        _, digest = part.finish()
        key = (name.stream, name.app, name.epoch, name.writer, name.attempt)
        with self._transaction() as db:
            old = db.execute(
                f"SELECT file FROM staged WHERE {_KEY} AND writer = ? AND attempt = ?",
                key).fetchall()
            db.execute(
                "INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, os.path.basename(part.path), part.rows, digest,
                 part.schema.serialize().to_pybytes(), time.time()))
        self._remove(name.stream, [file for file, in old])
        return Receipt(name.writer, name.attempt, part.rows, digest)

    def commit(
        self, stream: str, app: str, epoch: str, receipts: list[Receipt], *,
        after: str | None = None, ids: list[str] | None = None,
    ) -> tuple[bool, int]:
        """Returns if the epoch is new, and its rows. Raises Refusal; then nothing has changed.

        A part may have been sent under another epoch. Of that one, no other part is touched. A new
        epoch has to follow `after`, if it is given; empty: it has to be the first one of the app.
        `ids` are those of its records; none of them may have been committed before.
        """
        for what, name in (("stream", stream), ("app", app), ("epoch", epoch)):
            checked_name(what, name)
        where = f"epoch {epoch} of {app} in the stream {stream}"
        rows = sum(one.rows for one in receipts)
        content = f"{rows} {added(one.digest for one in receipts if one.rows)}"
        keys = {(one.epoch or epoch, one.writer): one.attempt for one in receipts}
        if len(keys) < len(receipts):
            raise Refusal(
                what="a writer is listed twice", where=where,
                why="one attempt of each writer counts",
                fix="list the attempt that succeeded", code="PL-E224")
        with self._transaction() as db:
            known = db.execute(
                f"SELECT digest, rows FROM epochs WHERE {_KEY}", (stream, app, epoch)).fetchone()
            is_new = known is None
            if is_new and after is not None:
                _must_follow(db, stream, app, after, where)
            if known is not None and known[0] != content:
                raise Refusal(
                    what="this epoch was committed with other content",
                    where=where,
                    why=f"it has {known[1]} rows, and {rows} were sent now; some are different",
                    fix="another epoch for other data", code="PL-E223")
            staged = {(sent, writer, attempt): row for sent in {epoch, *(key[0] for key in keys)}
                      for writer, attempt, *row in db.execute(
                          "SELECT writer, attempt, file, rows, digest, schema FROM staged "
                          f"WHERE {_KEY}", (stream, app, sent))}
            staged = {key: row for key, row in staged.items()
                      if key[0] == epoch or keys.get(key[:2]) == key[2]}
            used: set[str] = set()
            if is_new:
                used = self._append(db, stream, app, epoch, receipts, staged, content, rows, where)
                record_ids.add(db, stream, app, ids or [], where)
            db.executemany(f"DELETE FROM staged WHERE {_KEY} AND writer = ? AND attempt = ?",
                           [(stream, app, *key) for key in staged])
        self._remove(stream, [row[0] for row in staged.values() if row[0] not in used])
        return is_new, rows

    def _append(
        self, db: sqlite3.Connection, stream: str, app: str, epoch: str, receipts: list[Receipt],
        staged: dict[tuple[str, str, str], list[Any]], content: str, rows: int,
        where: str,
    ) -> set[str]:
        used: set[str] = set()
        parts: list[tuple[str, int]] = []
        schema = b""
        for one in receipts:
            found = staged.get((one.epoch or epoch, one.writer, one.attempt))
            if found is None or found[1:3] != [one.rows, one.digest]:
                raise Refusal(
                    what="a part of the epoch is not there",
                    where=f"{where}, writer {one.writer}, attempt {one.attempt}",
                    why="it was never sent, was aborted, or was sent again with other rows",
                    fix="send the parts of this epoch again, then commit", code="PL-E224")
            if one.rows:
                if schema and found[3] != schema:
                    raise Refusal(
                        what="parts of one epoch have different columns",
                        where=where,
                        why=f"{_columns(schema)}; and {_columns(found[3])}",
                        fix="write the same columns in each partition", code="PL-E225")
                schema = found[3]
                parts.append((found[0], one.rows))
                used.add(found[0])
        number = db.execute(
            "INSERT INTO epochs (stream, app, epoch, digest, rows, at) VALUES (?, ?, ?, ?, ?, ?)",
            (stream, app, epoch, content, rows, time.time())).lastrowid
        if not parts:
            return used
        known = db.execute("SELECT schema FROM streams WHERE stream = ?", (stream,)).fetchone()
        if known is None:
            db.execute("INSERT INTO streams VALUES (?, ?)", (stream, schema))
            db.executemany("INSERT INTO ends VALUES (?, ?, 0, 0)",
                           [(stream, partition) for partition in range(self._partitions)])
        elif known[0] != schema:
            raise _other_columns(stream, known[0], schema)
        ends = {partition: end for partition, (_, end) in _ends(db, stream).items()}
        for file, count in sorted(parts, key=lambda one: -one[1]):
            partition = min(ends, key=lambda one: (ends[one], one))
            db.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?)",
                       (stream, partition, ends[partition], count, file, number))
            ends[partition] += count
        db.executemany("UPDATE ends SET end = ? WHERE stream = ? AND partition = ?",
                       [(end, stream, partition) for partition, end in ends.items()])
        return used

    def abort(self, stream: str, app: str, epoch: str) -> int:
        """Removes the parts of the epoch that are not committed. Returns how many."""
        with self._transaction() as db:
            files = [file for file, in db.execute(
                f"SELECT file FROM staged WHERE {_KEY}", (stream, app, epoch))]
            db.execute(f"DELETE FROM staged WHERE {_KEY}", (stream, app, epoch))
        self._remove(stream, files)
        return len(files)

    def last(self, stream: str, app: str) -> tuple[str, int] | None:
        """Name and rows of the epoch that this app has committed last."""
        with self._mutex:
            return _last(self._db, stream, app)

    def known(self, stream: str, app: str, ids: list[str]) -> list[str]:
        """Those of the ids whose records are committed."""
        with self._mutex:
            return record_ids.known(self._db, stream, app, ids)

    # ---- reading ----

    def streams(self) -> list[str]:
        with self._mutex:
            return [one for one, in self._db.execute("SELECT stream FROM streams ORDER BY 1")]

    def schema(self, stream: str) -> Any | None:
        """The stream's columns. None: nothing was committed yet."""
        with self._mutex:
            known = self._db.execute(
                "SELECT schema FROM streams WHERE stream = ?", (stream,)).fetchone()
        return None if known is None else _schema(known[0])

    def ends(self, stream: str) -> dict[int, tuple[int, int]]:
        """By partition: the first offset that is there, and the one after the newest row."""
        with self._mutex:
            return _ends(self._db, stream)

    def read(self, stream: str, partition: int, offset: int) -> Iterator[Any]:
        """Batches of the committed rows from `offset` on, to the end that the partition has now."""
        with self._mutex:
            low, _ = _ends(self._db, stream)[partition]
            parts = self._db.execute(
                "SELECT first, file FROM parts WHERE stream = ?1 AND partition = ?2 AND first >= ("
                "SELECT max(first) FROM parts WHERE stream = ?1 AND partition = ?2 AND first <= ?3"
                ") ORDER BY first", (stream, partition, offset)).fetchall()
        if offset < low:
            raise _removed(stream, partition, offset)
        for first, file in parts:
            path = os.path.join(self.folder, "parts", stream, file)
            try:
                yield from read_from(path, max(offset - first, 0))
            except FileNotFoundError:  # `expire` came between
                raise _removed(stream, partition, first) from None

    # ---- the folder ----

    def expire(self, seconds: float) -> int:
        """Removes the rows that were committed longer ago. Their offsets are not used again."""
        with self._transaction() as db:
            lows = db.execute(
                "SELECT max(first + parts.rows), parts.stream, partition FROM parts JOIN epochs ON "
                "number = parts.epoch WHERE at < ? GROUP BY parts.stream, partition",
                (time.time() - seconds,)).fetchall()
            old: list[tuple[str, str]] = []
            for low, stream, partition in lows:
                # The rows before them, too, if the clock went back between two commits.
                old += db.execute(
                    "DELETE FROM parts WHERE stream = ? AND partition = ? AND first < ? "
                    "RETURNING stream, file", (stream, partition, low)).fetchall()
            db.executemany("UPDATE ends SET low = ? WHERE stream = ? AND partition = ?", lows)
        for stream, file in old:
            self._remove(stream, [file])
        return len(old)

    def expire_staged(self, seconds: float = STAGED_SECONDS_MAX) -> int:
        """Removes the parts that were sent longer ago and never committed, and old ids."""
        with self._transaction() as db:
            record_ids.forget(db)
            old = db.execute("DELETE FROM staged WHERE at < ? RETURNING stream, file",
                             (time.time() - seconds,)).fetchall()
        for stream, file in old:
            self._remove(stream, [file])
        return len(old)

    def free_bytes(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def _must_fit(self, stream: str, schema: Any) -> None:
        known = self.schema(stream)
        if known is not None and not known.equals(schema):
            raise _other_columns(
                stream, known.serialize().to_pybytes(), schema.serialize().to_pybytes())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself may have rolled back
                    self._db.execute("ROLLBACK")
                raise

    def _remove(self, stream: str, files: list[str]) -> None:
        for file in files:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, "parts", stream, file))

    def _sweep(self) -> None:
        """Removes files that no row names: a receiver was killed before or after their rows."""
        with self._transaction() as db:
            named = {(stream, file) for stream, file in db.execute(
                "SELECT stream, file FROM parts UNION SELECT stream, file FROM staged")}
        root = os.path.join(self.folder, "parts")
        for stream in os.listdir(root):
            folder = os.path.join(root, stream)
            if not is_own_folder(folder):
                continue
            for file in os.listdir(folder):
                if is_part(file) and (stream, file) not in named:
                    os.unlink(os.path.join(folder, file))


_KEY = "stream = ? AND app = ? AND epoch = ?"


def _ends(db: sqlite3.Connection, stream: str) -> dict[int, tuple[int, int]]:
    return {partition: (low, end) for partition, low, end in db.execute(
        "SELECT partition, low, end FROM ends WHERE stream = ? ORDER BY partition", (stream,))}


def _last(db: sqlite3.Connection, stream: str, app: str) -> tuple[str, int] | None:
    return db.execute(
        "SELECT epoch, rows FROM epochs WHERE stream = ? AND app = ? "
        "ORDER BY number DESC LIMIT 1", (stream, app)).fetchone()


def _must_follow(
    db: sqlite3.Connection, stream: str, app: str, after: str, where: str
) -> None:
    last = _last(db, stream, app)
    found = "" if last is None else last[0]
    if found != after:
        raise Refusal(
            what="another process has written as this app",
            where=where,
            why=f"the epoch follows {after or 'none'}, and the newest one is {found or 'none'}",
            fix="run one process an app; it goes on at the newest epoch when it is started again",
            code="PL-E335")


def _schema(data: bytes) -> Any:
    return pyarrow.ipc.read_schema(pyarrow.py_buffer(data))


def _columns(data: bytes) -> str:
    return shown(_schema(data))


def _other_columns(stream: str, known: bytes, found: bytes) -> Refusal:
    return Refusal(
        what="the columns of the stream have changed",
        where=f"the stream {stream}",
        why=f"it has {_columns(known)}; the part has {_columns(found)}",
        fix="write other columns into a stream of another name", code="PL-E225")


def _removed(stream: str, partition: int, offset: int) -> Refusal:
    return Refusal(
        what="these rows were removed",
        where=f"the stream {stream}, partition {partition} offset {offset}",
        why="they were committed longer ago than the receiver keeps rows (--keep)",
        fix="read from the partition's low offset on", code="PL-E226")
