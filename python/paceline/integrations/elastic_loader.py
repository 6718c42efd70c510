"""torch's DataLoader with a computed order: see `paceline.torch.ElasticLoader`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

from paceline._base import arguments
from paceline._data.cut import Gather
from paceline._data.likeness import digest_of, read_here
from paceline._data.loader import BaseLoader, Share, Steps
from paceline._data.order import ElasticDataset, Fingerprint, Ordered
from paceline._data.sampler_order import must_be_whole, seed_all
from paceline._rank import progress
from paceline.errors import ArgumentError, DataError
from paceline.integrations.by_speed import gather_over


class _Batches:
    """The DataLoader's batch sampler: the shares of one pass, as lists."""

    def __init__(self, seed: int) -> None:
        self.shares: Iterator[Share] = iter(())
        self._seed = seed

    def __iter__(self) -> Iterator[list[Any]]:
        return self._lists(self.shares)

    def _lists(self, shares: Iterator[Share]) -> Iterator[list[Any]]:
        for share in shares:
            # The first item seeds the worker, so its random numbers depend on the share alone.
            yield [f"{self._seed}/{share.epoch}/{share.step[0]}/{share.part}", *share.indices]


class View:
    """The data in DataLoader's workers: one call a batch, whose first item is the seed."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner  # the order is not sent; it stays in the rank

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        chance, *wanted = indices
        if torch.utils.data.get_worker_info() is not None:
            seed_all(chance)
        several = getattr(self._inner, "__getitems__", None)
        if several is not None:
            return cast("list[Any]", several(wanted))
        found: list[Any] = []
        for index in wanted:
            try:
                found.append(self._inner[index])
            except Exception as error:
                error.add_note(f"while sample {index} was read")
                raise
        return found


class _Digests(View):
    """The data of a worker that returns digests of records only."""

    def __getitem__(self, index: int) -> str:
        return digest_of(self._inner, index)


def read_in_worker(
    loader: "DataLoader[Any]", records: Any, places: Sequence[int]
) -> list[str]:
    """The digests of these records, read in a process like a worker of `loader`.

    The process ends before this returns. Without workers the rank itself reads the records.
    """
    if loader.num_workers == 0:
        return read_here(records, places)
    own = cast("Any", loader)
    chance = torch.Generator()
    chance.manual_seed(int.from_bytes(os.urandom(7)))  # a random transform then gives another value
    probe: DataLoader[Any] = DataLoader(
        cast("Any", _Digests(records)),
        batch_size=None,
        sampler=places,
        num_workers=1,
        generator=chance,
        timeout=own.timeout,
        worker_init_fn=own.worker_init_fn,
        multiprocessing_context=own.multiprocessing_context,
    )
    try:
        return [str(one) for one in probe]
    except Exception:
        return [""] * len(places)  # the worker died on a record; training may never read it


def make_loader(where: str, records: Any, **options: Any) -> "DataLoader[Any]":
    """torch's DataLoader. Its errors become an `ArgumentError` at `where`."""
    try:
        return DataLoader(records, **options)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            what="torch's DataLoader refuses these arguments",
            where=where,
            why=str(error),
            fix="the arguments of torch.utils.data.DataLoader",
        ) from error


class Reading(TypedDict, total=False):
    """How torch's DataLoader reads: its own arguments. All keys are optional."""

    num_workers: int
    collate_fn: Callable[[list[Any]], Any] | None
    pin_memory: bool
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory_device: str


def split(options: Mapping[str, Any]) -> tuple[Reading, dict[str, Any]]:
    """The options of torch's DataLoader, and all others."""
    reading = {key: options[key] for key in Reading.__annotations__ if key in options}
    others = {key: value for key, value in options.items() if key not in reading}
    return cast("Reading", reading), others


class _Options(Steps, Reading):
    pass


class ElasticLoader(BaseLoader):
    """A stateful DataLoader: every sample exactly once an epoch, at any world size.

    loader = ElasticLoader(ElasticDataset(dataset, shuffle=True, seed=7), global_batch=256,
                           num_workers=4)

    Save the position with the checkpoint: `state["data"] = loader`. Random numbers that a worker
    draws for a batch depend on the data's seed and the batch, not on the worker.

    Args:
        data: an `ElasticDataset` or `ElasticMixture`.
        global_batch: samples of one step over all ranks, whatever their number. Not with a batch
            sampler, which decides.
        virtual_ranks: for `FixedOrderReduction`: the number of equal parts of each step.
        micro_batch: samples of a rank at once, at most. The share comes in equal parts;
            `ends_step` is true for the last one, and `weight` scales each loss. Default None: the
            whole share at once.
        drop_last: True: leave out the last samples of an epoch if they fill no whole step. Default
            False.
        even_steps: False: a rank without a share in the last step skips it (evaluation). Default
            True.
        rank: the rank in the data parallel group. None: in the world.
        world_size: the size of the data parallel group. None: of the world.
        cut: `CutBySpeed()`: slower ranks get fewer samples of each step. Default None: equal
            shares.
        num_workers: this and the other arguments are torch's.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: the data cannot be shared among the ranks in this way.
    """

    @arguments.known("ElasticLoader", more=_Options.__annotations__, hints=arguments.OF_DATA_SETS)
    def __init__(
        self,
        data: Ordered,
        *,
        global_batch: int | None = None,
        virtual_ranks: int | None = None,
        **options: Unpack[_Options],
    ) -> None:
        reading, steps = split(options)
        super().__init__(
            ordered(data), global_batch=global_batch, virtual_ranks=virtual_ranks, **steps
        )
        seed = cast("int", self.data.terms()["seed"])
        self._batches = _Batches(seed)
        self._chance = torch.Generator()
        self._chance.manual_seed(seed)  # torch draws from it and not from the script's generator
        self._loader = make_loader(
            "ElasticLoader",
            View(self.data.reader()),
            batch_sampler=self._batches,
            generator=self._chance,
            **reading,
        )

    @classmethod
    def wrap(
        cls,
        loader: "DataLoader[Any]",
        *,
        global_batch: int,
        seed: int = 0,
        name: str = "",
        fingerprint: Fingerprint = True,
        **options: Any,
    ) -> "ElasticLoader":
        """Make an existing DataLoader elastic. The original is not used any more.

        loader = ElasticLoader.wrap(dataloader, global_batch=256, seed=7)

        Takes over its dataset, workers, collate function and sampler. Sequential, random and
        distributed samplers are replaced by an order of ours. Any other sized sampler is asked for
        the indices of the whole data set.

        Args:
            loader: a DataLoader of torch. If its DistributedSampler divides among fewer ranks than
                the world has, as with tensor parallelism, the sampler's rank and size are used.
            global_batch: samples of one step over all ranks.
            seed: of the order, unless a DistributedSampler has one.
            name: of the data set, for messages and fingerprints.
            fingerprint: see `ElasticDataset`.
            options: the other arguments of `ElasticLoader`.

        Raises:
            ArgumentError: `loader` is no DataLoader.
            DataError: the DataLoader has no order that can be taken over.
        """
        if not isinstance(cast("object", loader), DataLoader):
            wanted, fix = "a DataLoader of torch", "ElasticLoader(ElasticDataset(dataset), …)"
            raise arguments.refuse("ElasticLoader.wrap", "loader", loader, wanted, fix)
        inner = cast("Any", loader)
        looks_at: _Looks = {"seed": seed, "name": name, "fingerprint": fingerprint}
        data = ordered(_data_of(loader, looks_at))
        taken = {key: getattr(inner, key) for key in (*Reading.__annotations__, "drop_last")}
        if isinstance(inner.sampler, DistributedSampler) and "world_size" not in options:
            taken |= _seat_of(cast("DistributedSampler[Any]", inner.sampler))
        return cls(data, global_batch=global_batch, **{**taken, **options})

    def _own_gather(self) -> Gather:
        return gather_over(None)

    def _digests(self, places: Sequence[int]) -> list[str]:
        return read_in_worker(self._loader, self.data.reader(), places)

    def _read(self, shares: Iterator[Share]) -> Iterator[Any]:
        self._batches.shares = shares
        return iter(self._loader)


def ordered(data: Any) -> Ordered:
    if isinstance(data, IterableDataset):
        raise DataError(
            what="an IterableDataset has no indices",
            where=type(data).__qualname__,
            why="it yields samples without indices, so the ranks cannot share them",
            fix="use a data set with __len__ and __getitem__ in ElasticDataset, or "
                "paceline.data.StreamLoader, which skips samples after a restart",
        )
    return cast("Ordered", data)


def _seat_of(sampler: "DistributedSampler[Any]") -> dict[str, int]:
    """Rank and world size from the sampler; {} if they are those of the whole world."""
    ranks, world_size = sampler.num_replicas, progress.world_size()
    if world_size == 1 or ranks in (1, world_size) or type(sampler) is not DistributedSampler:
        return {}
    if ranks < world_size and world_size % ranks == 0:
        return {"rank": sampler.rank, "world_size": ranks}
    raise DataError(
        what=f"the DistributedSampler shares among {ranks} ranks",
        where="ElasticLoader.wrap",
        why=f"the world has {world_size}, and groups of equal size cannot be made of that",
        fix="give rank= and world_size= of the data parallel group",
    )


class _Looks(TypedDict):
    seed: int
    name: str
    fingerprint: Fingerprint


def _data_of(loader: "DataLoader[Any]", options: _Looks) -> ElasticDataset:
    inner = cast("Any", loader)
    sampler = inner.sampler
    if inner.batch_sampler is None or type(inner.batch_sampler) is not BatchSampler:
        raise DataError(
            what="this DataLoader cannot be wrapped",
            where=type(inner.batch_sampler).__qualname__,
            why="it makes its batches in its own way, so their size is not known",
            fix="ElasticDataset(dataset, …) and ElasticLoader",
        )
    ordered(loader.dataset)
    dataset = cast("Any", loader.dataset)
    if isinstance(sampler, DistributedSampler) and type(sampler) is not DistributedSampler:
        must_be_whole(sampler, len(dataset), f"wrap of a {type(sampler).__qualname__}")
    kinds: dict[type, bool] = {SequentialSampler: False, RandomSampler: True}
    if type(sampler) is DistributedSampler:
        own: _Looks = {**options, "seed": sampler.seed}
        return ElasticDataset(dataset, shuffle=sampler.shuffle, **own)
    if type(sampler) in kinds and not getattr(sampler, "replacement", False):
        whole = getattr(sampler, "num_samples", len(dataset)) == len(dataset)
        if whole:
            return ElasticDataset(dataset, shuffle=kinds[type(sampler)], **options)
    return ElasticDataset(dataset, sampler=sampler, **options)
