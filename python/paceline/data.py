"""Which samples a rank reads: every one exactly once an epoch, at any world size. No framework.

    from paceline.data import ElasticDataset, ElasticLoader

    data = ElasticDataset(records, shuffle=True, seed=7)  # anything with __len__ and __getitem__
    loader = ElasticLoader(data, global_batch=256)
    while loader.epoch < epochs:
        for batch in loader:  # the rest of the current epoch: this rank's samples of a step
            train(batch)
            save(loader.state_dict())  # epoch, position, and the data's fingerprint

Asynchronous work leases samples instead, so faster workers get more:

    for sample in paceline.data.shards(records, name="pages"):
        work(sample)

A live stream has no end, and the same loader reads it:

    clicks = paceline.data.Stream("kafka://host:9092/clicks", decode=json.loads)
    for batch in paceline.data.LeasedLoader(clicks, batch=4096, wait=1.0):
        train(batch)

`paceline.torch` has the same loaders on top of torch's DataLoader.
"""

from collections.abc import Callable, Iterator
from typing import Any, Unpack

from paceline._base import arguments
from paceline._data.cut import CutBySpeed
from paceline._data.leases import LeasedLoader, shards
from paceline._data.loader import BaseLoader, Share, Steps
from paceline._data.order import ElasticDataset, ElasticMixture, Ordered
from paceline._data.stream import Stream
from paceline._data.stream_loader import StreamLoader
from paceline._data.then import Then
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
    "Stream",
    "StreamLoader",
    "Then",
    "shards",
]


class ElasticLoader(BaseLoader):
    """Yields `collate(samples)` for this rank's share of each step, read in this process.

    loader = ElasticLoader(data, global_batch=256, collate=numpy.stack)

    Args:
        data: an `ElasticDataset` or `ElasticMixture`.
        global_batch: samples of one step over all ranks. Not allowed with a batch sampler,
            which sets the samples of each step.
        collate: makes a batch of a list of samples. None: a batch is that list.
        micro_batch: samples of a rank at once, at most; its share comes in equal parts.
            None (default): the whole share at once.
        drop_last: True: leave out the last samples of an epoch if they fill no whole step. Default
            False.
        even_steps: False: a rank without a share in the last step skips it (evaluation). Default
            True.
        rank: the rank in the data parallel group. None: in the world.
        world_size: the size of the data parallel group. None: of the world.
        cut: `CutBySpeed(gather=…)`: slower ranks get fewer samples of each step. None: equal
            shares.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: the data cannot be shared among the ranks in this way.
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
