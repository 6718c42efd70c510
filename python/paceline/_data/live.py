"""Training on a live stream (`Stream`): the loader of a worker, which reads some partitions."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from paceline._base import arguments
from paceline._data import in_hand, lease_errors
from paceline._data.lease_holder import SLICE_SECONDS, LeaseHolder, Resume, terms_text
from paceline._data.live_batch import LiveBatch, LiveReading, LiveRun
from paceline._data.order import Json
from paceline._data.stream import Stream
from paceline.errors import DataError
from paceline.sources.live import Records, Source, arrow_of, values_of

_WHERE = "LeasedLoader"
_ORDINALS = 2**53
_PARTITION = 2**36  # ordinals of a partition: docs/formats/lease_frames.md
_LOOK_SECONDS = 1.0  # between two looks for new partitions
_POLL_SECONDS = 0.1
_FILES_AT_ONCE = 2
REFUSED_WINDOW = 10_000
REFUSED_MOST = 100  # of the window


class LiveLoader(LeaseHolder):
    """What `LeasedLoader(Stream(…))` makes: batches of the partitions that this worker holds.

    Args:
        batch: samples at once, at most. None: single samples. wait: seconds after a batch's first
            sample until the batch is handed out as it is. resume: "acks" (default): after a
            failure, go on after the acknowledged records. "checkpoint": rewind with the model.
        collate: makes a batch of a list of samples; not for a stream with `decode_batch`.
        deadline: seconds without an acknowledgement until a worker's partitions go to others.
    """

    @arguments.known(_WHERE)
    def __init__(
        self,
        stream: Stream,
        *,
        batch: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        wait: float = 1.0,
        name: str | None = None,
        resume: Resume = "acks",
        deadline: float = 10.0,
    ) -> None:
        super().__init__(
            arguments.text(_WHERE, "name", name or stream.name, bytes_max=200),
            resume=arguments.one_of(_WHERE, "resume", resume, ("acks", "checkpoint")),
            ahead=0,
        )
        self.stream = stream
        self.batch = None if batch is None else arguments.count(_WHERE, "batch", batch)
        self._collate = arguments.callback(_WHERE, "collate", collate)
        self._wait = arguments.number(
            _WHERE, "wait", wait, least=0.0, most=86_400, wanted="seconds, 0 to 86,400",
            fix="wait=1.0")
        seconds = arguments.number(
            _WHERE, "deadline", deadline, least=0.1, most=86_400,
            wanted="seconds, 0.1 to 86,400", fix="deadline=10")
        self._open.is_stream = True
        self._open.ordinals = _ORDINALS
        self._open.deadline_ms = int(seconds * 1000)
        self._open.terms = terms_text(self._terms())
        self._look_seconds = min(_LOOK_SECONDS, seconds / 4)
        self._source_or_none: Source | None = None
        self._readings: dict[str, LiveReading] = {}  # by partition
        self._told: set[str] = set()  # partitions that the ledger knows from this process
        self._again: deque[LiveBatch] = deque()  # handed out, and not done
        self._current: LiveBatch | None = None
        self._gathered: LiveBatch | None = None
        self._polled: deque[Records] = deque()  # read, and in no batch yet
        self._looked = 0.0
        self._is_running = False
        self._checked = 0  # records that were taken for batches
        # Of the last REFUSED_WINDOW, by `_checked`, and at most one more than are allowed.
        self._refused_at: deque[int] = deque(maxlen=REFUSED_MOST + 1)
        self.refused = 0  # records that decode refused in this process
        self.lost = 0  # batches that were acknowledged too late

    # ---- the loop ----

    def __iter__(self) -> Iterator[Any]:
        """Yields batches for as long as the loop goes on: a stream has no end."""
        if self._is_running:
            raise lease_errors.two_loops(self.name)
        self._is_running = True
        try:
            while True:
                yield from self._hand_out(self._again.popleft() if self._again else self._gather())
        finally:
            self._is_running = False

    def soon(self, seconds: float) -> Iterator[Any]:
        """The next batch; nothing if no record comes within these seconds."""
        yield from self._hand_out(self._again.popleft() if self._again else self._gather(seconds))

    def _hand_out(self, batch: LiveBatch) -> Iterator[Any]:
        """Yield the samples, if there are any."""
        self._current = batch
        self._show(batch)
        try:
            made = self._made_of(batch)
            if batch.size:
                yield made
            self.done()
        finally:
            in_hand.end(self)
            if self._current is not None:  # the loop ended in this batch
                self._again.appendleft(self._current)
                self._current = None

    def _made_of(self, batch: LiveBatch) -> Any:
        """What the loop gets; None if nothing is left of the batch."""
        if not batch.size:
            return None
        if self.stream.decode_batch is not None:
            return self._decoded(batch, self.stream.decode_batch)
        samples = batch.samples()
        if self.batch is None:
            return samples[0]
        return samples if self._collate is None else self._collate(samples)

    def _decoded(self, batch: LiveBatch, decode: Callable[[Any], Any]) -> Any:
        """What `decode_batch` makes of the batch, without the records that it refuses."""
        raw = arrow_of([run.values for run in batch.runs])
        try:
            return decode(raw)
        except Exception:
            if not self._refuse_of(batch, decode):
                raise  # it takes each record alone, so the failure is not that of a record
        return decode(arrow_of([run.values for run in batch.runs])) if batch.size else None

    def _refuse_of(self, batch: LiveBatch, decode: Callable[[Any], Any]) -> bool:
        """Puts the records that `decode` refuses when they are alone into the quarantine."""
        place = self._checked - batch.size
        refused: list[tuple[LiveReading, int, int, Exception]] = []
        kept: list[LiveRun] = []
        for run in batch.runs:
            begin = run.first
            for at in range(len(run.values)):
                place += 1
                raw = arrow_of([run.values[at:at + 1]])
                try:
                    decode(raw)
                except Exception as error:
                    refused.append((run.reading, run.first + at, place, error))
                    kept.append(run.part(begin, run.first + at))
                    begin = run.first + at + 1
            kept.append(run.part(begin, run.first + len(run.values)))
        batch.replace([run for run in kept if len(run.values)])
        for reading, ordinal, at, error in refused:
            self._refuse_record(reading, ordinal, at, error)
        return bool(refused)

    def done(self) -> None:
        """Acknowledge the last batch now, and not only when the loop asks for the next one."""
        batch = self._current
        if batch is None:
            return
        shown = in_hand.of(self)
        if shown is not None and shown.parts:
            # Tables have a part of it. They apply each record once, so the loop gets the parts.
            self._again.extendleft(reversed(batch.cut(shown.parts)))
        elif shown is not None and not (shown.is_pushed or shown.obstacle):
            in_hand.leave_out(shown)
        self._current = None
        in_hand.end(self)
        if shown is None or not shown.parts:
            self._ack(batch)

    def _show(self, batch: LiveBatch) -> None:
        if in_hand.is_wanted() and batch.until:
            self._show_ordinals(batch.ranges(), is_divisible=True)

    def _ack(self, batch: LiveBatch) -> None:
        for lease, until in batch.until.items():
            if not self._reader.ack(lease, until):
                self.lost += 1
                self._forget(lease)
        self._refuse_lost()

    # ---- records ----

    def _gather(self, patience_max: float | None = None) -> LiveBatch:
        """The next samples: as many as a batch has, or fewer after `wait`, or none for now."""
        batch = self._gathered = LiveBatch()
        try:
            self._fill(batch, patience_max)
        except BaseException:
            if batch.size or batch.until:
                self._again.appendleft(batch)  # the loop may go on
            raise
        finally:
            self._gathered = None
        return batch

    def _fill(self, batch: LiveBatch, patience_max: float | None) -> None:
        size = self.batch or 1
        until: float | None = None
        if time.monotonic() - self._looked >= self._look_seconds:
            self._look()
        began = time.monotonic()
        while batch.size < size:
            now = time.monotonic()
            if until is not None and now >= until:
                break
            if until is None and patience_max is not None and now - began >= patience_max:
                break
            if now - self._looked >= self._look_seconds:
                self._look()
                if not batch.size and batch.until:
                    break  # only refused records so far
            self._take(batch)
            if not self._polled and not batch.size:
                in_hand.wait()
            if not self._polled:
                patience = _POLL_SECONDS if until is None else min(_POLL_SECONDS, until - now)
                self._polled += self._source.poll(size - batch.size, max(patience, 0.0))
            self._take_polled(batch, size)
            if batch.size and until is None:
                until = time.monotonic() + self._wait

    def _take_polled(self, batch: LiveBatch, size: int) -> None:
        """Moves polled records into the batch, until it has `size` samples."""
        polled = self._polled
        while polled and batch.size < size:
            records = polled[0]
            reading = self._readings.get(records.partition)
            if reading is None:
                polled.popleft()
                continue
            if records.is_gap:
                self._skip(reading, records.offset, batch)
                polled.popleft()
                continue
            first = reading.ordinal(records.offset)
            # An interrupted call has taken a part of them: what is left is told by `reading.next`.
            begin = max(reading.next - first, 0)
            end = min(len(records.values), begin + size - batch.size, reading.end - first)
            if begin < end:
                is_all = end - begin == len(records.values)
                part = records if is_all else records.part(begin, end)
                self._take_records(batch, reading, part)
            elif begin < len(records.values):
                self._end_lease(reading, first + begin, batch)
            if reading.next - first >= len(records.values) or begin >= end:
                polled.popleft()

    def _take_records(self, batch: LiveBatch, reading: LiveReading, records: Records) -> None:
        """They are those that the lease has next, and the batch has room for all of them."""
        decode, values = self.stream.decode, records.values
        first = reading.ordinal(records.offset)
        count = len(values)
        if records.refusal:
            batch.advance(reading, first + count)
            self._checked += count
            self._refuse_record(reading, first, self._checked, ValueError(records.refusal))
            return
        if self.stream.decode_batch is None:
            values = values_of(values)
        if decode is None:
            batch.take(LiveRun(reading, first, values))
            self._checked += count
            return
        samples: list[Any] = []
        refusal: Exception | None = None
        try:
            for value in values:
                samples.append(decode(value))
        except Exception as error:
            refusal = error
        finally:  # an interrupted decode has not made anything of its record
            count = len(samples)
            self._checked += count
            batch.take(LiveRun(reading, first, samples))
        if refusal is not None:
            batch.advance(reading, first + count + 1)
            self._checked += 1
            self._refuse_record(reading, first + count, self._checked, refusal)

    def _end_lease(self, reading: LiveReading, ordinal: int, batch: LiveBatch) -> None:
        """There are records behind what the lease has."""
        if ordinal >= reading.first + _PARTITION:
            raise DataError(
                what="a partition has more records than can be counted",
                where=f"the stream {self.name}, partition {reading.name}",
                why="this data set has read 2^36 offsets of it",
                fix="another name= for the stream, so that it begins anew",
                is_final=True,
            )
        # Others have done what follows the lease's part.
        batch.advance(reading, reading.end)
        self._source.close(reading.name)

    def _refuse_record(
        self, reading: LiveReading, ordinal: int, place: int, error: Exception
    ) -> None:
        """`place`: how many records were taken up to this one, as `_checked` counts them."""
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:300]
        self._reader.gap(reading.lease, ordinal, ordinal + 1, True, why)
        self.refused += 1
        offset = reading.offset(ordinal)
        if self.refused <= 10 or self.refused % 1000 == 0:
            logging.getLogger("paceline").warning(
                "a record of the stream %s goes to the quarantine: partition %s offset %d: %s",
                self.name, reading.name, offset, why)
        self._refused_at.append(place)
        while self._refused_at[0] <= place - REFUSED_WINDOW:
            self._refused_at.popleft()
        if len(self._refused_at) > REFUSED_MOST:
            window = min(place, REFUSED_WINDOW)
            raise DataError(
                what="decode refuses too many records of the stream",
                where=f"the stream {self.name}, partition {reading.name} offset {offset}",
                why=f"{len(self._refused_at)} of the last {window:,} records, and at most "
                f"{REFUSED_MOST} of {REFUSED_WINDOW:,} are allowed; the last one: {why}",
                fix="correct decode=, or what writes the stream; then paceline run --resume",
                is_final=True,  # a restart would put the rest into the quarantine, too
            ) from error

    # ---- leases ----

    @property
    def _source(self) -> Source:
        if self._source_or_none is None:
            self._source_or_none = self.stream.open(is_first=self._is_first())
        return self._source_or_none

    def _is_first(self) -> bool:
        """Whether no run of this data set has found a partition yet, as far as the ledger knows."""
        while True:
            what, _lease, _begin, known, text = self._reader.known(SLICE_SECONDS)
            if what == "complete":
                return known == 0
            self._refuse(what, text)

    def _look(self) -> None:
        """Tells the ledger what this process sees, and obeys its recalls."""
        self._looked = time.monotonic()
        reader = self._reader
        for part in self._source.partitions():
            if part.name not in self._told:
                self._told.add(part.name)
                reader.found(part.name, part.base, part.records)
        for reading in list(self._readings.values()):
            if not reader.holds(reading.lease):
                self._forget(reading.lease)
                continue
            end = self._source.end(reading.name)
            if end is not None:
                reader.seen(reading.lease, max(reading.ordinal(end), reading.first))
        for lease in reader.recalled():
            self._forget(lease)
            reader.give_back(lease)
        reader.touch()
        self._refuse_lost()

    def _take(self, batch: LiveBatch) -> None:
        for reading in [one for one in self._readings.values() if one.next >= one.end]:
            self._stop(reading)  # all of it is handed out
        while self._source.is_eager or len(self._readings) < _FILES_AT_ONCE:
            what, lease, begin, end, text = self._reader.take(0.0, True)
            if what != "lease":
                self._refuse(what, text)
                return
            base, _, name = text.partition("\n")
            first = begin - begin % _PARTITION
            reading = LiveReading(lease, name, first, int(base), end, begin)
            older = self._readings.get(name)
            if older is not None and not self._reader.holds(older.lease):
                self._forget(older.lease)  # this lease has its rest
            elif older is not None:
                # Two parts of one partition: one after the other, by the ledger.
                self._reader.give_back(lease)
                if older.next >= older.end:
                    self._stop(older)
                return
            offset = reading.offset(begin)
            at = self._source.open(name, offset)
            self._readings[name] = reading
            if at > offset:
                self._skip(reading, at, batch)

    def _skip(self, reading: LiveReading, at: int, batch: LiveBatch) -> None:
        """Retention has eaten the records up to offset `at`."""
        until = min(reading.ordinal(at), reading.end)
        if until <= reading.next:
            return
        why = f"retention has eaten offsets {reading.offset(reading.next)} to {at - 1}"
        logging.getLogger("paceline").warning(
            "a gap in the stream %s, partition %s: %s", self.name, reading.name, why)
        self._reader.gap(reading.lease, reading.next, until, False, why)
        batch.advance(reading, until)

    def _stop(self, reading: LiveReading) -> None:
        if self._readings.get(reading.name) is reading:
            del self._readings[reading.name]
            self._source.close(reading.name)
            # Of a reading that may begin again before them.
            kept = (one for one in self._polled if one.partition != reading.name)
            self._polled = deque(kept)

    def _forget(self, lease: int) -> None:
        """Another worker goes on with this lease's records that are not done."""
        for reading in [one for one in self._readings.values() if one.lease == lease]:
            self._stop(reading)
        batches = [*self._again, *filter(None, (self._gathered,))]
        for batch in batches:
            batch.forget(lease)
        self._again = deque(batch for batch in self._again if batch.size or batch.until)

    # ---- what the holder of leases asks ----

    def _connect(self) -> None:
        # The ledger frees records that the tables have lost. Batches have no common borders.
        if in_hand.is_wanted() and self._resume == "acks":
            self._open.unit = 1
            self._open.terms = terms_text({**self._terms(), "tables": True})
        super()._connect()

    def _drop_all(self) -> None:
        for reading in list(self._readings.values()):
            self._stop(reading)
        self._current = self._gathered = None
        self._again.clear()
        self._polled.clear()

    def _terms(self) -> Json:
        return {"stream": self.stream.scheme, "of": self.stream.of}

    def _fingerprint_now(self) -> object:
        return None

    def _must_be_like(self, saved: object) -> None:
        if saved is not None:
            raise DataError(
                what="the saved position is not one of a stream",
                where=f"the stream {self.name}",
                why="it has the fingerprint of a data set of fixed size",
                fix="another name for the loader in the state",
            )

    def close(self) -> None:
        """Return the partitions, and close the connection to the broker."""
        super().close()
        source, self._source_or_none = self._source_or_none, None
        self._told.clear()
        if source is not None:
            source.close()
