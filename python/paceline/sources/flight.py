"""Streams of a receiver (`paceline receive`): what Spark, Ray and others have committed.

A stream has a fixed number of partitions, and an offset is a number of rows. The value of a record
is a row as a dict. A stream to which nothing was committed yet has no partitions.
"""

import time
from collections.abc import Iterator, Mapping

from paceline._base.once_a_minute import OnceAMinute
from paceline.errors import DataError
from paceline.receiver.refusal import Refusal
from paceline.sinks.client import Client
from paceline.sources.live import Part, Records, Start

_ENDS_SECONDS = 0.1  # between two questions for new commits
# A receiver that is frozen, or whose host is lost, blocks a poll for so long. A read that brings no
# row in this time gets twice as long when it is repeated.
_ANSWER_SECONDS = 5.0
_READ_SECONDS = 10.0
_READ_SECONDS_MAX = 600.0
_REMOVED = "PL-E226"


def open_source(url: str, start: Start, settings: Mapping[str, str]) -> "Flight":
    return Flight(url, start, settings)


class Flight:
    """A stream: `Flight("flight://host:8815/clicks", "earliest", {"token": "…"})`."""

    is_eager = True

    def __init__(self, url: str, start: Start, settings: Mapping[str, str]) -> None:
        self._client = Client(url, settings)
        self._errors = (self._client.flight.FlightUnavailableError,
                        self._client.flight.FlightTimedOutError)
        if start not in ("earliest", "latest"):
            raise DataError(
                what="a stream of a receiver has no start time",
                where=self._client.where,
                why=f"start={start!r} was given",
                fix='start="earliest", or start="latest" for what is committed from now on',
            )
        self._start = start
        self._asked = False
        self._bases: dict[int, int] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._ends_at = 0.0
        self._next: dict[int, int] = {}  # open partition → the next offset
        self._reading: dict[int, Iterator[Records]] = {}
        self._rest: dict[int, Records] = {}  # rows that a poll has left over
        self._ready: list[Records] = []  # of a poll that was interrupted
        self._read_seconds = _READ_SECONDS
        self._teller = OnceAMinute()

    def partitions(self) -> list[Part]:
        self._look()
        for partition, (low, end) in self._ends.items():
            # A stream that is made later is read from its beginning.
            is_from_end = self._start == "latest" and not self._asked
            self._bases.setdefault(partition, end if is_from_end else low)
        return [Part(str(one), base) for one, base in sorted(self._bases.items())]

    def open(self, name: str, offset: int) -> int:
        partition = int(name)
        self._look()
        low, end = self._ends.get(partition, (0, offset))
        if offset > end:
            raise self._fewer(partition, offset, end)
        first = max(offset, low)
        self._next[partition] = first
        return first

    def poll(self, most: int, seconds: float) -> list[Records]:
        until = time.monotonic() + seconds
        while True:
            records = self._poll_once(most)
            now = time.monotonic()
            if records or now >= until:
                return records
            time.sleep(max(min(self._ends_at + _ENDS_SECONDS, until) - now, 0.001))

    def end(self, name: str) -> int | None:
        found = self._ends.get(int(name))
        return found[1] if found is not None else None

    def close(self, name: str | None = None) -> None:
        if name is None:
            for partition in list(self._next):
                self.close(str(partition))
            self._client.close()
            return
        partition = int(name)
        for kept in (self._next, self._rest):
            kept.pop(partition, None)
        self._ready = [one for one in self._ready if one.partition != name]
        if (reading := self._reading.pop(partition, None)) is not None:
            reading.close()  # type: ignore[attr-defined]  a generator

    def _poll_once(self, most: int) -> list[Records]:
        try:
            self._make_ready(most)
        except BaseException:
            # What is ready comes with the next poll. The rest is read again after it.
            self._rest.clear()
            self._reading.clear()
            raise
        records, self._ready = self._ready, []
        return records

    def _make_ready(self, most: int) -> None:
        waiting = [one for one in self._next if one not in self._rest]
        if waiting and time.monotonic() - self._ends_at >= _ENDS_SECONDS:
            self._look()
        left = most - sum(len(one.values) for one in self._ready)
        for partition in list(self._next):
            while left > 0:
                rows = self._rest.pop(partition, None) or self._fetch(partition)
                if rows is None:
                    break
                count = len(rows.values)
                taken = rows if count <= left else rows.part(0, left)
                if count > left:
                    self._rest[partition] = rows.part(left, count)
                left -= len(taken.values)
                self._ready.append(taken)
                self._next[partition] = taken.offset + len(taken.values)
        # The next poll begins with another partition.
        if self._ready and self._next:
            first = next(iter(self._next))
            self._next[first] = self._next.pop(first)

    def _fetch(self, partition: int) -> Records | None:
        """Some rows of this partition, or a gap. None: all that is committed was read."""
        reading = self._reading.get(partition)
        if reading is None:
            if self._ends.get(partition, (0, 0))[1] <= self._next[partition]:
                return None
            reading = self._reading[partition] = self._read(partition, self._next[partition])
        try:
            with self._client.told():
                rows = next(reading, None)
        except self._errors as error:
            self._ends = {}  # so that no read begins before the receiver has answered
            if not isinstance(error, self._client.flight.FlightTimedOutError):
                self._tell(error)
            rows = None
        except Refusal as refused:
            if refused.code != _REMOVED:
                raise
            self._reading.pop(partition, None)
            self._look()
            low, _ = self._ends.get(partition, (0, 0))
            if low <= self._next[partition]:
                return None
            return Records(str(partition), low, [], is_gap=True)
        if rows is None:
            self._reading.pop(partition, None)
        return rows

    def _read(self, partition: int, offset: int) -> Iterator[Records]:
        name = str(partition)
        first, seconds = offset, self._read_seconds
        reader = self._client.get(partition, offset, seconds)
        try:
            for chunk in reader:
                if len(rows := chunk.data):
                    yield Records(name, offset, rows)
                offset += len(rows)
        except self._client.flight.FlightTimedOutError:
            if offset == first:
                self._read_seconds = min(2 * seconds, _READ_SECONDS_MAX)
            raise
        finally:
            reader.cancel()

    def _look(self) -> None:
        """Asks for the ends of all partitions."""
        try:
            found = self._client.act(
                "ends", seconds=_ANSWER_SECONDS, stream=self._client.stream)["partitions"]
        except self._errors as error:
            self._tell(error)
            return
        finally:
            self._ends_at = time.monotonic()
        self._ends = {place: (one["low"], one["end"]) for place, one in enumerate(found)}
        if not found:
            self._asked = True  # it has no rows yet, so all that come are new
        for partition, offset in self._next.items():
            end = self._ends.get(partition, (0, 0))[1]
            if offset > end:
                raise self._fewer(partition, offset, end)

    def _fewer(self, partition: int, offset: int, end: int) -> DataError:
        return DataError(
            what="the stream has fewer rows than were read from it",
            where=f"{self._client.where}, partition {partition}",
            why=f"the position is offset {offset}, and the newest row is before {end}: the "
            "receiver's folder was removed or is another one",
            fix="restore the folder, or give the new stream another name=",
        )

    def _tell(self, error: Exception) -> None:
        """A failure that may pass."""
        self._teller.tell("%s does not answer; waiting for it: %s", self._client.where,
                          str(error).partition("\n")[0])
