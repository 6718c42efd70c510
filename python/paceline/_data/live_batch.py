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


class LiveBatch:
    """Samples, and the records of each lease that are done when they are: also those without a
    sample.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[int, int, Any]] = []  # (lease, ordinal, sample)
        self.begin: dict[int, int] = {}  # by lease: ordinal
        self.until: dict[int, int] = {}  # by lease: ordinal

    def advance(self, reading: LiveReading, until: int) -> None:
        """All records of the lease up to there are this batch's."""
        self.begin.setdefault(reading.lease, reading.next)
        reading.next = self.until[reading.lease] = until

    def forget(self, lease: int) -> None:
        self.begin.pop(lease, None)
        self.until.pop(lease, None)
        self.samples = [one for one in self.samples if one[0] != lease]

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
                    batch.samples = [
                        one for one in self.samples if one[0] == lease and begin <= one[1] < end]
                    batches.append(batch)
        return batches
