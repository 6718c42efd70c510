"""Ids of committed records, for sources that have no offsets: RocketMQ sends a message again.

The ids of an epoch are stored in the transaction that commits it. An id counts for 7 days, then it
is forgotten: a source must not send a record again later than that.
"""

import sqlite3
import time

from paceline.receiver.refusal import Refusal

IDS_MAX = 10_000  # of an epoch
ID_CHARACTERS_MAX = 256
KEPT_SECONDS = 7 * 86_400

TABLES = """
CREATE TABLE IF NOT EXISTS ids (
  stream TEXT NOT NULL, app TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (stream, app, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ids_by_time ON ids (at);
"""


def known(db: sqlite3.Connection, stream: str, app: str, ids: list[str]) -> list[str]:
    """Those of the ids that are committed, in their order."""
    return [one for one in ids if db.execute(
        "SELECT 1 FROM ids WHERE stream = ? AND app = ? AND id = ?", (stream, app, one)).fetchone()]


def add(db: sqlite3.Connection, stream: str, app: str, ids: list[str], where: str) -> None:
    """Raises Refusal if one of them is there already: another process has committed that record."""
    repeated = known(db, stream, app, ids)
    if repeated or len(set(ids)) < len(ids):
        raise Refusal(
            what="records of the epoch were committed before",
            where=where,
            why=f"{len(repeated)} of {len(ids)} ids are known, as {repeated[0]!r}" if repeated
                else "an id is listed twice",
            fix="ask `known`, leave these records out, and commit the others as another epoch",
            code="PL-E336")
    now = time.time()
    db.executemany("INSERT INTO ids VALUES (?, ?, ?, ?)", [(stream, app, one, now) for one in ids])


def forget(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM ids WHERE at < ?", (time.time() - KEPT_SECONDS,))
