"""Asynchronous work on a data set: workers lease its samples, and each sample counts once.

    for sample in paceline.data.shards(records, name="pages", epochs=1):
        work(sample)  # it is acknowledged when the loop asks for the next one

Faster workers get more. The samples of a worker that died, froze or lost its connection go to
another worker.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from paceline._base import arguments
from paceline._data import in_hand, lease_errors
from paceline._data.fingerprint import Sized, digest
from paceline._data.lease_holder import SLICE_SECONDS, LeaseHolder, Resume, terms_text
from paceline._data.lease_piece import Piece
from paceline._data.likeness import Likeness, read_here
from paceline._data.loader import must_be_ordered
from paceline._data.order import ElasticDataset, Fingerprint, Json, Ordered
from paceline._data.then import made_for
from paceline._rank import progress
from paceline.errors import DataError

_WHERE = "LeasedLoader"
_COUNT_MAX = 2**32 - 1

Policy = Literal["raise", "skip"]


class LeasedLoader(LeaseHolder):
    """Yields the samples that this worker leases from `data`, one by one or as lists of `batch`.

    loader = LeasedLoader(ElasticDataset(records, seed=7), name="train", epochs=3)

    Under `paceline run` all ranks share the master's ledger; alone, this process has its own. A
    sample counts once, when the loop asks for the next one. Work on a lease that was given to
    another worker does not count.

    Args:
        name: of the data set, unique in the job. epochs: passes over the data, without a barrier
        between them. batch: samples at once, as `collate(samples)`. None: single samples. resume:
        "acks" (default): after a failure, continue after the acknowledged samples. "checkpoint":
            rewind the data with the model; put the loader into the saved state. All ranks then
            get equally many samples and have a common last step.
        drop_last: with resume="checkpoint": False raises if the ranks cannot share all samples
            evenly. True leaves the last ones out, with a warning.
        uneven: True: with resume="checkpoint", faster ranks still get more; no collectives.
        lease: samples in a lease, at most.
        ahead: leases that are taken before the current one is done.
        deadline: seconds without an acknowledgement until a worker's leases go to others, or 4
            times the expected duration of a lease if that is longer.
        failures: workers on which a sample fails before it is quarantined.
        bad_samples: "raise": an unreadable sample raises in the loop, and quarantined samples
            raise at the end. "skip": both are logged; see `quarantined`.
    """

    def __new__(cls, data: Any, **options: Any) -> Any:
        """For a `Stream` or `Then`, another class of loader; `__init__` is not called for it."""
        return made_for(cls, data, options) or super().__new__(cls)

    @arguments.known(_WHERE, hints={**arguments.OF_DATA_SETS, "batch_size": "batch="})
    def __init__(
        self,
        data: Ordered,
        *,
        name: str = "data",
        epochs: int = 1,
        batch: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        resume: Resume = "acks",
        lease: int = 1_000_000,
        ahead: int = 1,
        deadline: float = 10.0,
        failures: int = 3,
        bad_samples: Policy = "raise",
        drop_last: bool = True,
        uneven: bool = False,
    ) -> None:
        must_be_ordered(_WHERE, data)
        super().__init__(
            arguments.text(_WHERE, "name", name, bytes_max=200),
            resume=arguments.one_of(_WHERE, "resume", resume, ("acks", "checkpoint")),
            ahead=arguments.count(_WHERE, "ahead", ahead, least=0, most=_COUNT_MAX),
        )
        self.data = data
        self.epochs = arguments.count(_WHERE, "epochs", epochs)
        self.batch = None if batch is None else arguments.count(_WHERE, "batch", batch)
        self._collate = arguments.callback(_WHERE, "collate", collate)
        self._policy = arguments.one_of(_WHERE, "bad_samples", bad_samples, ("raise", "skip"))
        wanted, fix = "seconds, 0.001 to 86,400", "deadline=10"
        seconds = arguments.number(
            _WHERE, "deadline", deadline, least=0.001, most=86_400, wanted=wanted, fix=fix)
        self._open.terms = terms_text(self._terms())
        ordinals = data.samples * self.epochs
        self._open.ordinals = arguments.count(_WHERE, "samples * epochs", ordinals)
        self._open.lease_max = arguments.count(_WHERE, "lease", lease)
        self._open.lease_first = min(64, lease)
        self._open.deadline_ms = int(seconds * 1000)
        self._open.failures_max = arguments.count(_WHERE, "failures", failures, most=_COUNT_MAX)
        is_uneven = arguments.flag(_WHERE, "uneven", uneven)
        self._is_even = self._open.is_even = resume == "checkpoint" and not is_uneven
        drops = arguments.flag(_WHERE, "drop_last", drop_last) or not self._is_even
        if not drops and ordinals % (ranks := progress.world_size()):
            raise lease_errors.remainder(name, ordinals, ranks)
        self._records = data.reader()
        self._likeness = Likeness(data, self._digests)
        self._cursor: Piece | None = None  # the rest of the current lease
        self._again: deque[list[Piece]] = deque()  # pieces that were handed out and did not count
        self._current: list[Piece] | None = None  # the pieces that the loop works on now
        self._given_up: set[int] = set()  # lost leases; the read-ahead may still have pieces
        self._is_running = False
        self.quarantined: list[tuple[int, int]] = []  # (epoch, index), known at the end, the first
        self._bad_samples = 0  # how many there are; one frame has about 9,000 of them
        self.lost = 0  # batches that were acknowledged too late
        self.left_out = 0  # samples at the end that the ranks cannot share evenly

    # ---- the loop ----

    def __iter__(self) -> Iterator[Any]:
        """Yields this worker's samples until all workers together have read every sample."""
        if self._is_running:
            raise lease_errors.two_loops(self.name)
        self._is_running = True
        self._likeness.before_workers()
        try:
            yield from self._iterate()
        finally:
            self._is_running = False

    def free(self) -> Iterator[Any]:
        """Yields this worker's samples for as long as any is free, without waiting for others."""
        self._likeness.before_workers()
        return self._iterate(is_patient=False)

    def _iterate(self, *, is_patient: bool = True) -> Iterator[Any]:
        size = self.batch or 1
        while (pieces := self._next_batch(size, is_patient=is_patient)) is not None:
            try:
                samples = self._read(pieces)
            except Exception as error:
                if kept := self._fail(pieces, error):
                    self._put_back(kept)
                continue
            yield from self._hand_out(samples, pieces)
        if is_patient:
            self._finish()

    def _hand_out(self, samples: Any, pieces: list[Piece]) -> Iterator[Any]:
        """Yield samples. Those after which the loop ends are handed out again in the next loop."""
        self._current = pieces
        self._show(pieces)
        try:
            yield samples
            self.done()
        finally:
            in_hand.end(self)
            if self._current is not None:
                self._put_back(self._current)
                self._current = None

    def _show(self, pieces: list[Piece]) -> None:
        if in_hand.is_wanted():
            self._show_ordinals([(piece.begin, piece.end) for piece in pieces])

    def _put_back(self, pieces: list[Piece]) -> None:
        """Hand these pieces out next, because an ack covers all earlier ordinals of its lease."""
        self._again.appendleft(pieces)

    def done(self) -> None:
        """Acknowledge the last batch now, and not only when the loop asks for the next one."""
        pieces, self._current = self._current, None
        in_hand.end(self)
        if pieces is not None:
            self._ack(pieces)

    def _read(self, pieces: list[Piece]) -> Any:
        samples: list[Any] = []
        for piece in pieces:
            for place, index in enumerate(self._indices(piece)):
                try:
                    samples.append(self._records[index])
                except Exception as error:
                    raise _BadSampleError(piece, piece.begin + place, index) from error
        if self.batch is None:
            return samples[0]
        return samples if self._collate is None else self._collate(samples)

    def _indices(self, piece: Piece) -> list[int]:
        epoch, begin = divmod(piece.begin, self.data.samples)
        return self.data.indices(epoch, begin, begin + piece.end - piece.begin)

    # ---- leases ----

    def _connect(self) -> None:
        # Only a process with tables needs whole batches. Otherwise a batch may take its samples
        # from two leases, or end with a lease, as it did before there were tables. All ranks run
        # one script, so all of them ask for the same. If they do not, their terms differ, and the
        # ledger refuses the second one.
        if in_hand.is_wanted() and self._resume == "acks":
            self._open.unit = self.batch or 1
            self._open.epoch = self.data.samples
            self._open.terms = terms_text({**self._terms(), "batch": self._open.unit})
        super()._connect()

    def _next_batch(self, size: int, *, is_patient: bool) -> list[Piece] | None:
        """Up to `size` samples; fewer if no more are free now. None if no sample is free, or at the
        end.

        With even shares every batch is whole, so that each rank has equally many. This needs no
        wait for other ranks: a rank's even share is always free.
        """
        if self._again and not self._is_even:
            return self._again.popleft()
        pieces: list[Piece] = []
        count = 0
        while count < size:
            waits = self._is_even or (is_patient and not pieces)
            piece = self._piece_again(size - count) or self._next_piece(
                size - count, is_patient=waits)
            if piece is None:
                break
            pieces.append(piece)
            count += piece.end - piece.begin
            if self._open.unit:
                break  # leases have whole batches, and the last one of an epoch is shorter
        return pieces or None

    def _piece_again(self, size: int) -> Piece | None:
        """The next samples that were handed out and did not count, in the order of leases."""
        if not self._again:
            return None
        first = self._again[0][0]
        taken = Piece(first.lease, first.begin, min(first.end, first.begin + size))
        first.begin = taken.end
        if first.begin == first.end:
            del self._again[0][0]
        if not self._again[0]:
            self._again.popleft()
        return taken

    def _next_piece(self, size: int, *, is_patient: bool) -> Piece | None:
        if self._cursor is None:
            self._cursor = self._take(is_patient=is_patient)
        cursor = self._cursor
        if cursor is None:
            return None
        epoch_end = (cursor.begin // self.data.samples + 1) * self.data.samples
        end = min(cursor.begin + size, cursor.end, epoch_end)
        piece = Piece(cursor.lease, cursor.begin, end)
        cursor.begin = end
        if cursor.begin == cursor.end:
            self._cursor = None
        return piece

    def _take(self, *, is_patient: bool) -> Piece | None:
        while True:
            what, lease, begin, end, text = self._reader.take(SLICE_SECONDS, is_patient)
            if what == "lease":
                return Piece(lease, begin, end)
            if what == "complete":
                self._bad_samples = begin
                self._note_quarantine(text)
                self.left_out = end
                lease_errors.tell_left_out(self.name, end, self._open.world_size)
                return None
            if what == "wait" and not is_patient:
                return None
            self._refuse(what, text)

    def _ack(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if not self._reader.ack(piece.lease, piece.end):
                self.lost += 1
                self._forget(piece.lease)
        self._refuse_lost()

    def _forget(self, lease: int) -> None:
        """Drop the rest of a lease that another worker has now."""
        if self._cursor is not None and self._cursor.lease == lease:
            self._cursor = None
        kept = [[p for p in pieces if p.lease != lease] for pieces in self._again]
        self._again = deque(pieces for pieces in kept if pieces)
        self._given_up.add(lease)

    def _fail(self, pieces: list[Piece], error: BaseException) -> list[Piece]:
        """Report the lease of the bad sample as failed. Returns the pieces of other leases.

        All samples of that lease in the batch are returned, also those of the next epoch and those
        read before the bad one, because the batch did not count.
        """
        bad = error if isinstance(error, _BadSampleError) else None
        cause = error.__cause__ if bad is not None else error
        failed: dict[int, tuple[int, int]] = {}  # by lease: the failed range
        for piece in pieces:
            if bad is None:
                begin, _ = failed.get(piece.lease, (piece.begin, 0))
                failed[piece.lease] = (begin, piece.end)
            elif piece is bad.piece:
                failed[piece.lease] = (bad.ordinal, bad.ordinal + 1)
        for lease, (begin, end) in failed.items():
            self._reader.fail(lease, begin, end)
            self._forget(lease)
        kept = [piece for piece in pieces if piece.lease not in failed]
        which = f"sample {bad.index}" if bad is not None else "a batch"
        if self._policy == "raise":
            if kept:
                self._put_back(kept)
            assert cause is not None
            cause.add_note(f"while {which} of the data set {self.name} was read")
            raise cause
        why = str(cause).partition("\n")[0]
        _log().warning("%s of the data set %s cannot be read: %s", which, self.name, why)
        return kept

    def _finish(self) -> None:
        while True:
            what, _lease, _begin, _end, text = self._reader.flush(SLICE_SECONDS)
            if what == "complete":
                break
            self._refuse(what, text)
        self._refuse_lost()
        if not self.quarantined:
            return
        shown = ", ".join(f"{index} (epoch {epoch})" for epoch, index in self.quarantined[:5])
        if self._bad_samples > 5:
            shown += ", …"
        sentence = f"complete except {self._bad_samples} in quarantine: {shown}"
        if self._policy == "skip":
            _log().warning("the data set %s is %s", self.name, sentence)
            return
        raise DataError(
            what=f"the data set {self.name} is {sentence}",
            where=f"the data set {self.name}",
            why=f"they failed on {self._open.failures_max} workers, or twice as often",
            fix='mend the samples and run again; bad_samples="skip" to go on without them',
        )

    def _note_quarantine(self, text: str) -> None:
        self.quarantined = []
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            for ordinal in range(int(first), int(last or first) + 1):
                epoch, place = divmod(ordinal, self.data.samples)
                self.quarantined.append((epoch, self.data.indices(epoch, place, place + 1)[0]))

    # ---- what the holder of leases asks ----

    def _drop_all(self) -> None:
        self._cursor = self._current = None
        self._again.clear()

    def _fingerprint_now(self) -> object:
        return self._likeness.now()

    def _must_be_like(self, saved: object) -> None:
        self._likeness.must_be(saved, f"the data set {self.name}")

    def _digests(self, places: Sequence[int]) -> list[str]:
        """Digests of these records, read in the kind of process that reads batches."""
        return read_here(self._records, places)

    def _terms(self) -> Json:
        # Short, because the terms travel in one frame and the data may have many files.
        own = {key: value for key, value in self.data.fingerprint().items() if key != "files"}
        drawn = getattr(self.data, "drawn", lambda _epoch: "")(0)
        terms = {**self.data.terms(), "epochs": self.epochs, "data": digest(own)}
        return {**terms, "drawn": drawn} if drawn else terms


class _BadSampleError(Exception):
    def __init__(self, piece: Piece, ordinal: int, index: int) -> None:
        super().__init__(index)
        self.piece = piece
        self.ordinal = ordinal
        self.index = index


def _log() -> logging.Logger:
    return logging.getLogger("paceline")


def shards(
    dataset: Sized,
    *,
    name: str = "data",
    epochs: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    fingerprint: Fingerprint = True,
    **options: Any,
) -> LeasedLoader:
    """A `LeasedLoader` of the data set that all workers share. `options` are its other arguments.

    for sample in paceline.data.shards(records, name="pages"): …
    """
    data = ElasticDataset(dataset, shuffle=shuffle, seed=seed, name=name, fingerprint=fingerprint)
    return LeasedLoader(data, name=name, epochs=epochs, **options)
