"""Which samples a rank reads: every one exactly once an epoch, at any world size. No framework.

    from paceline.data import ElasticDataset, ElasticLoader

    data = ElasticDataset(records, shuffle=True, seed=7)  # anything with __len__ and __getitem__
    loader = ElasticLoader(data, global_batch=256)
    while loader.epoch < epochs:
        for batch in loader:  # the rest of the current epoch: this rank's samples of a step
            train(batch)
            save(loader.state_dict())  # two numbers, and what the data looks like

Asynchronous work leases samples instead, and who is faster gets more:

    for sample in paceline.data.shards(records, name="pages"):
        work(sample)

`paceline.torch` has the same with torch's DataLoader below it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Unpack

from paceline._base import arguments
from paceline._data.cut import CutBySpeed
from paceline._data.leases import LeasedLoader, shards
from paceline._data.loader import BaseLoader, Share, Steps
from paceline._data.order import ElasticDataset, ElasticMixture, Ordered
from paceline._data.stream import StreamLoader
from paceline.errors import ArgumentError, DataError

__all__ = [
    "ArgumentError",
    "CutBySpeed",
    "DataError",
    "ElasticDataset",
    "ElasticLoader",
    "ElasticMixture",
    "LeasedLoader",
    "Share",
    "StreamLoader",
    "shards",
]


class ElasticLoader(BaseLoader):
    """Yields `collate(samples)` for each step's share of this rank, read in this process.

    loader = ElasticLoader(data, global_batch=256, collate=numpy.stack)

    Without `collate` a batch is the list of its samples. Other arguments, all by name:

    micro_batch=None   at most so many samples of a rank at once; a share comes in equal parts
    drop_last=False    leave out the samples of an epoch that fill no whole step
    even_steps=True    False: a rank without a share in the last step skips it (evaluation)
    rank, world_size   of the data parallel group, where that is not the whole world
    cut=None           CutBySpeed(gather=…): slower ranks get less of each step
    """

    @arguments.known(
        "ElasticLoader",
        more=(*Steps.__annotations__, "virtual_ranks"),
        hints=arguments.OF_DATA_SETS,
    )
    def __init__(
        self,
        data: Ordered,
        *,
        global_batch: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        **steps: Unpack[Steps],
    ) -> None:
        super().__init__(data, global_batch=global_batch, **steps)
        self._collate = arguments.callback("ElasticLoader", "collate", collate)
        self._reader = self.data.reader()

    def _read(self, shares: Iterator[Share]) -> Iterator[Any]:
        for share in shares:
            samples = [self._reader[index] for index in share.indices]
            yield samples if self._collate is None else self._collate(samples)
