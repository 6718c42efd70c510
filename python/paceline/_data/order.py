"""The order in which a data set is read: computed, never stored, the same at any world size."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, Protocol, cast

from paceline._base import arguments
from paceline._data.fingerprint import Sized, fingerprint
from paceline._data.sampler_order import Json, SamplerOrder, must_be_whole
from paceline._native import EpochOrder, Mixture
from paceline.errors import ArgumentError, DataError

_DATASET, _MIXTURE = "ElasticDataset", "ElasticMixture"
_NAME_BYTES_MAX = 200
PROBES = 4  # records that are read with fingerprint="records"
# How much of the data is compared when a position is restored.
Fingerprint = bool | Literal["records"]


class Ordered(Protocol):
    """The interface of a loader's data: an order of indices, and the records behind them."""

    name: str

    @property
    def samples(self) -> int:
        """Ordinals of an epoch."""
        ...

    def indices(self, epoch: int, begin: int, end: int) -> list[int]:
        """The indices at these ordinals of the epoch."""
        ...

    def reader(self) -> Any:
        """The records: `reader()[index]`. The object is sent to worker processes."""
        ...

    def terms(self) -> Json:
        """Plain values that must be equal when a position is restored."""
        ...

    def fingerprint(self) -> Json: ...


class ElasticDataset:
    """A data set with `__len__` and `__getitem__`, and the order in which epochs read it.

    data = ElasticDataset(dataset, shuffle=True, seed=7)

    Args:
        dataset: the data set.
        shuffle: whether each epoch has another order, which follows from `seed`.
        seed: of the order.
        block: shuffle blocks of this many samples, for storage that reads neighbours faster.
        window: the number of blocks that are shuffled together, sample by sample.
        sampler: gives the order: anything sized that yields indices of the whole data set, such as
            torch's samplers. It is iterated once an epoch, after `set_epoch` if it has that method,
            with random numbers that follow from seed and epoch.
        batch_sampler: the same for lists of indices; each list is one step over all ranks.
        name: the name of the data set in messages and fingerprints.
        fingerprint: how a restored position detects that the data changed. True: by its length and
            by its method `fingerprint()`, which our sources have for their files. False: by its
            length alone. "records": also by the values of a few records.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: the data set or the sampler cannot be used in this way.
    """

    @arguments.known(_DATASET, hints=arguments.OF_LOADERS)
    def __init__(
        self,
        dataset: Sized,
        *,
        shuffle: bool = True,
        seed: int = 0,
        block: int | None = None,
        window: int | None = None,
        sampler: "Iterable[int] | None" = None,
        batch_sampler: "Iterable[Sequence[int]] | None" = None,
        name: str = "",
        fingerprint: Fingerprint = True,
    ) -> None:
        self.dataset = dataset
        self.name = _name(name)
        self.samples = _length(dataset)
        self._seed = arguments.count(_DATASET, "seed", seed, least=0)
        self._looks_at = _looks_at(_DATASET, fingerprint)
        self._fingerprint: Json | None = None
        self._block, self._window = _blocks(
            shuffle, block, window, batch_sampler if sampler is None else sampler
        )
        self._shuffle = "none" if not shuffle else "blocked" if self._block else "whole"
        self._drawn: SamplerOrder | None = None
        self._order: tuple[int, EpochOrder] | None = None
        if sampler is not None:
            if batch_sampler is not None:
                wanted = "left out beside a batch sampler"
                raise arguments.refuse(_DATASET, "sampler", sampler, wanted, "one of both")
            self._shuffle = "sampler"
            self._drawn = self._order_of(sampler)
            self.samples = _length(sampler, noun="sampler")
        if batch_sampler is not None:
            self._shuffle = "batch_sampler"
            self._drawn = self._order_of(batch_sampler)
            self.samples = len(self._drawn.epoch(0).indices)

    def _order_of(self, sampler: "Iterable[Any]") -> SamplerOrder:
        if not isinstance(cast("object", sampler), Iterable):
            wanted, fix = "an iterable of indices, or of lists of them", "sampler=[2, 0, 1]"
            raise arguments.refuse(_DATASET, "sampler", sampler, wanted, fix)
        must_be_whole(sampler, len(self.dataset), _place(self.name))
        in_batches = self._shuffle == "batch_sampler"
        return SamplerOrder(
            sampler, in_batches=in_batches, seed=self._seed, where=_place(self.name)
        )

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]

    def reader(self) -> Any:
        return self.dataset

    def indices(self, epoch: int, begin: int, end: int) -> list[int]:
        if self._drawn is not None:
            return self._sample(self._drawn, epoch)[begin:end]
        return self._epoch(epoch).samples(begin, end)

    def ordinal_of(self, epoch: int, index: int) -> int:
        """The ordinal at which a sample is read; with a sampler, where it is read first."""
        if self._drawn is not None:
            return self._sample(self._drawn, epoch).index(index)
        return self._epoch(epoch).ordinal_of(index)

    def terms(self) -> Json:
        return {
            "samples": self.samples,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "block": self._block,
            "window": self._window,
            "name": self.name,
        }

    def fingerprint(self) -> Json:
        if self._fingerprint is None:
            self._fingerprint = (
                fingerprint(self.dataset, names_files=self._looks_at == "records")
                if self._looks_at
                else {"samples": len(self.dataset)}
            )
        return self._fingerprint

    def probes(self) -> list[int]:
        """Indices of the records to compare; empty unless fingerprint="records"."""
        if self._looks_at != "records" or "own" in self.fingerprint():
            return []  # the data set's own fingerprint() suffices
        count = len(self.dataset)
        return sorted({i * (count - 1) // (PROBES - 1) for i in range(PROBES)})

    def _epoch(self, epoch: int) -> EpochOrder:
        if self._order is None or self._order[0] != epoch:
            order = EpochOrder(
                self.samples, self._seed, epoch, self._shuffle, self._block, self._window
            )
            self._order = (epoch, order)
        return self._order[1]

    def step_ends(self, epoch: int) -> list[int] | None:
        """The ordinal at which each step of the epoch ends; None without a batch sampler."""
        if self._drawn is None or self._shuffle != "batch_sampler":
            return None
        return self._drawn.epoch(epoch).ends

    def drawn(self, epoch: int) -> str:
        """16 digits of the sampler's order in this epoch; "" without a sampler."""
        if self._drawn is None:
            return ""
        self._sample(self._drawn, epoch)
        return self._drawn.epoch(epoch).digest

    def sampler_state(self, epoch: int) -> Json | None:
        """State from which the sampler gives that epoch's order again; None without a sampler."""
        return None if self._drawn is None else self._drawn.state(epoch)

    def load_sampler(self, state: object) -> None:
        """Restore `sampler_state`. Raises DataError if the sampler now gives another order."""
        if self._drawn is not None:
            self._drawn.load(state)

    def _sample(self, order: SamplerOrder, epoch: int) -> list[int]:
        found = order.epoch(epoch).indices
        if self._shuffle == "sampler" and len(found) != self.samples:
            raise DataError(
                what=f"the sampler gave {len(found)} indices",
                where=_place(self.name),
                why=f"its length is {self.samples}",
                fix="use a sampler whose length is the number of indices that it yields",
            )
        return found


class ElasticMixture:
    """Several data sets in one order, in exact proportions.

    data = ElasticMixture({"web": web, "code": code}, weights={"web": 7, "code": 3}, seed=7)

    Here each run of ten samples has seven of `web`. Each data set is read in whole epochs of its
    own.

    Args:
        datasets: the data sets, by name. weights: the share of each data set, by name. seed: of the
        order. length: samples in an epoch of the mixture. None: until every data set was read once.
        shuffle: whether each data set is shuffled, in another order each epoch. name: of the
        mixture, in messages and when a position is restored. fingerprint: see `ElasticDataset`.
    """

    @arguments.known(_MIXTURE, hints=arguments.OF_LOADERS)
    def __init__(
        self,
        datasets: Mapping[str, Sized],
        *,
        weights: Mapping[str, float],
        seed: int = 0,
        length: int | None = None,
        shuffle: bool = True,
        name: str = "",
        fingerprint: Fingerprint = True,
    ) -> None:
        self.name = _name(name)
        _looks_at(_MIXTURE, fingerprint)
        self._seed = arguments.count(_MIXTURE, "seed", seed, least=0)
        self._weights = _whole_weights(datasets, weights)
        self._mixture = Mixture(list(self._weights.values()), self._seed)
        self._parts = [
            ElasticDataset(
                dataset, shuffle=shuffle, seed=self._seed + i, name=key, fingerprint=fingerprint
            )
            for i, (key, dataset) in enumerate(datasets.items())
        ]
        self._joined = _Joined(list(datasets.values()))
        periods = max(
            math.ceil(part.samples / weight)
            for part, weight in zip(self._parts, self._weights.values(), strict=True)
        )
        if length is not None:
            length = arguments.count(_MIXTURE, "length", length)
        self.samples = length or periods * self._mixture.period

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        return self._joined[index]

    def reader(self) -> Any:
        return self._joined

    def member(self, index: int) -> tuple[str, int]:
        """The name of the data set that an index belongs to, and the sample's index in it."""
        which, sample = self._joined.member(index)
        return self._parts[which].name, sample

    def indices(self, epoch: int, begin: int, end: int) -> list[int]:
        found: list[int] = []
        for place in range(epoch * self.samples + begin, epoch * self.samples + end):
            which, draw = self._mixture.at(place)
            own_epoch, ordinal = divmod(draw, self._parts[which].samples)
            (sample,) = self._parts[which].indices(own_epoch, ordinal, ordinal + 1)
            found.append(self._joined.starts[which] + sample)
        return found

    def terms(self) -> Json:
        return {
            "samples": self.samples,
            "shuffle": "mixture",
            "seed": self._seed,
            "weights": dict(self._weights),
            "sets": {part.name: part.terms() for part in self._parts},
            "name": self.name,
        }

    def fingerprint(self) -> Json:
        return {
            "samples": self.samples,
            "sets": {part.name: part.fingerprint() for part in self._parts},
        }

    def probes(self) -> list[int]:
        parts = zip(self._joined.starts, self._parts, strict=False)
        return [start + place for start, part in parts for place in part.probes()]


class _Joined:
    """Data sets, concatenated."""

    def __init__(self, datasets: list[Sized]) -> None:
        self._datasets = datasets
        self.starts = [0]
        for dataset in datasets:
            self.starts.append(self.starts[-1] + len(dataset))

    def member(self, index: int) -> tuple[int, int]:
        which = bisect_right(self.starts, index) - 1
        return which, index - self.starts[which]

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, index: int) -> Any:
        which, sample = self.member(index)
        return self._datasets[which][sample]


def _place(name: str) -> str:
    return f"the data set {name}" if name else "the data set"


def _length(dataset: object, *, noun: str = "data set") -> int:
    try:
        count = len(cast("Sized", dataset))
    except (TypeError, NotImplementedError) as error:
        raise DataError(
            what=f"the {noun} has no length",
            where=type(dataset).__qualname__,
            why="without a length an epoch cannot be shared among the ranks",
            fix="give it __len__, or use StreamLoader for data that is only iterable"
            if noun == "data set"
            else "give it __len__",
        ) from error
    if not hasattr(dataset, "__getitem__") and noun == "data set":
        raise DataError(
            what="the data set has no __getitem__",
            where=type(dataset).__qualname__,
            why="samples are read by their numbers, in any order",
            fix="give it __getitem__(index), or use StreamLoader for data that is only iterable",
        )
    if count < 1:
        raise DataError(
            what=f"the {noun} is empty",
            where=type(dataset).__qualname__,
            why="its length is 0",
            fix="check how the data set finds its samples",
        )
    return count


def _blocks(
    shuffle: object, block: int | None, window: int | None, sampler: object
) -> tuple[int, int]:
    arguments.flag(_DATASET, "shuffle", shuffle)
    if block is None:
        if window is not None:
            wanted, fix = "given together with block", "block=1024, window=16"
            raise arguments.refuse(_DATASET, "window", window, wanted, fix)
        return 0, 0
    if not shuffle or sampler is not None:
        wanted = "left out without a shuffle of ours"
        raise arguments.refuse(_DATASET, "block", block, wanted, "shuffle=True")
    size = arguments.count(_DATASET, "block", block)
    return size, arguments.count(_DATASET, "window", 16 if window is None else window)


def _looks_at(where: str, value: object) -> Fingerprint:
    if isinstance(value, bool) or value == "records":
        return cast("Fingerprint", value)
    wanted = 'True, False or "records"'
    raise arguments.refuse(where, "fingerprint", value, wanted, "fingerprint=True")


def _name(name: object) -> str:
    """The name of a data set; it may be empty."""
    return arguments.text(_DATASET, "name", name, least=0, bytes_max=_NAME_BYTES_MAX)


def _whole_weights(
    datasets: Mapping[str, Sized], weights: Mapping[str, float]
) -> dict[str, int]:
    def bad(name: str, value: object, wanted: str, fix: str) -> ArgumentError:
        return arguments.refuse(_MIXTURE, name, value, wanted, fix)

    for name, value in (("datasets", datasets), ("weights", weights)):
        if not isinstance(cast("object", value), Mapping):
            raise bad(name, value, "a dict by the names of the data sets", f'{name}={{"web": …}}')
    if not datasets or set(datasets) != set(weights):
        wanted = f"one for each of {sorted(map(str, datasets))}"
        raise bad("weights", dict(weights), wanted, "weights={…}")
    exact: dict[str, Fraction] = {}
    for key in datasets:
        value = weights[key]
        found = arguments.real(value)
        if found is None or not 0 < found < math.inf:
            raise bad(f"weights[{key!r}]", value, "a number above 0", "weights of 7 and 3")
        exact[key] = Fraction(str(value))  # as written: 0.1 is one tenth exactly
    scale = math.lcm(*(part.denominator for part in exact.values()))
    whole = {key: int(part * scale) for key, part in exact.items()}
    common = math.gcd(*whole.values())
    whole = {key: part // common for key, part in whole.items()}
    if sum(whole.values()) > 2**32:
        wanted = "of at most nine digits together"
        raise bad("weights", dict(weights), wanted, "use rounder weights")
    return whole
