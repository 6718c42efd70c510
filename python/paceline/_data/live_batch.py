"""The batches of a live stream, and the partitions that a worker reads."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class LiveReading:
    """A lease: the rest of a partition, or a part of it that a rewind has left over."""

    lease: int
    name: str
    first: int  # the ordinal that `base` has
    base: int
    end: int  # ordinal
    next: int  # ordinal

    def offset(self, ordinal: int) -> int:
        return self.base + ordinal - self.first

    def ordinal(self, offset: int) -> int:
        return self.first + offset - self.base


@dataclass(slots=True)
class LiveRun:
    """Samples of a partition, of which each has the ordinal after the one before."""

    reading: LiveReading
    first: int  # ordinal
    values: Any
    """A list of samples. If `decode_batch` is to make the batch: a list or an Arrow RecordBatch."""

    def part(self, begin: int, end: int) -> "LiveRun":
        """What lies between these ordinals; none of it may."""
        places = slice(max(begin - self.first, 0), max(end - self.first, 0))
        return LiveRun(self.reading, max(begin, self.first), self.values[places])


class LiveBatch:
    """Samples, and the records of each lease that are done when they are: also those without a
    sample.
    """

    def __init__(self) -> None:
        self.runs: list[LiveRun] = []
        self.size = 0  # samples
        self.begin: dict[int, int] = {}  # by lease: ordinal
        self.until: dict[int, int] = {}  # by lease: ordinal

    def take(self, run: LiveRun) -> None:
        """All records of the lease up to the run's end are this batch's, and these its samples."""
        reading, count = run.reading, len(run.values)
        size, until = self.size + count, run.first + count
        begin = self.begin.get(reading.lease, reading.next)
        # Nothing may come between these lines, so none of them calls a function: a signal's handler
        # runs only there, and may raise.
        self.size = size
        self.begin[reading.lease] = begin
        reading.next = self.until[reading.lease] = until
        self.runs += [run]

    def advance(self, reading: LiveReading, until: int) -> None:
        """All records of the lease up to there are this batch's."""
        self.begin.setdefault(reading.lease, reading.next)
        reading.next = self.until[reading.lease] = until

    def replace(self, runs: list[LiveRun]) -> None:
        """These are the samples."""
        self.runs, self.size = runs, sum(len(run.values) for run in runs)

    def forget(self, lease: int) -> None:
        self.begin.pop(lease, None)
        self.until.pop(lease, None)
        self.replace([run for run in self.runs if run.reading.lease != lease])

    def samples(self) -> list[Any]:
        found: list[Any] = []
        for run in self.runs:
            found += run.values
        return found

    def ranges(self) -> list[tuple[int, int]]:
        """The ordinals, half open, in rising order."""
        return sorted((self.begin[lease], until) for lease, until in self.until.items())

    def cut(self, parts: list[tuple[int, int]]) -> list["LiveBatch"]:
        """A batch for each of these parts, in their order. Each part is of one lease."""
        batches: list[LiveBatch] = []
        for begin, end in parts:
            for lease, first in self.begin.items():
                if first <= begin and end <= self.until[lease]:
                    batch = LiveBatch()
                    batch.begin[lease], batch.until[lease] = begin, end
                    runs = [run.part(begin, end) for run in self.runs
                            if run.reading.lease == lease]
                    batch.replace([run for run in runs if len(run.values)])
                    batches.append(batch)
        return batches
