"""Which samples counted: read from what the ranks wrote about what they read, and nothing else.

Each line of a trace is one step of one rank: generation, step, epoch, then the samples. A step that
was done again counts as its newest generation did it; what older ones read was thrown away with
their state.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Count:
    read: int  # samples that counted, over all epochs
    lost: int  # of the whole epochs, and never read
    repeated: int  # read again in one epoch
    steps_again: int  # steps that more than one generation did
    open_epoch: Counter[int]  # what was read of the epoch under way

    def missing(self, reference: "Count") -> int:
        """Samples that are lost, those of the epoch under way as another run of as many steps."""
        return self.lost + (reference.open_epoch - self.open_epoch).total()


def count_samples(lines: Iterable[str], *, samples: int) -> Count:
    """Counts of a data set of that many samples. The last epoch may end early, none other may."""
    by_step: dict[int, dict[int, list[tuple[int, list[int]]]]] = {}
    for line in lines:
        generation, step, epoch, *indices = map(int, line.split())
        by_step.setdefault(step, {}).setdefault(generation, []).append((epoch, indices))
    epochs: dict[int, Counter[int]] = {}
    for generations in by_step.values():
        for epoch, indices in generations[max(generations)]:
            epochs.setdefault(epoch, Counter()).update(indices)
    last = max(epochs, default=0)
    repeated = sum(n - 1 for seen in epochs.values() for n in seen.values())
    lost = sum(samples - len(epochs.get(epoch, ())) for epoch in range(last))
    return Count(
        read=sum(seen.total() for seen in epochs.values()),
        lost=lost,
        repeated=repeated,
        steps_again=sum(len(generations) > 1 for generations in by_step.values()),
        open_epoch=epochs.get(last, Counter()),
    )


def read_trace(folder: Path) -> list[str]:
    """All lines of all ranks; one that a kill cut off is left out."""
    return [
        line
        for path in sorted(folder.iterdir())
        for line in path.read_text().split("\n")[:-1]
        if line
    ]
