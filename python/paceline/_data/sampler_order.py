"""A sampler's order for all ranks: drawn once an epoch, and equal after a restart.

A sampler draws its indices with random numbers that follow from seed and epoch. If it has
generators of its own, which continue from epoch to epoch, their states before each epoch are kept
and saved. A digest tells whether the order is the same after a restart and on all ranks.
"""

import hashlib
import operator
import random
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from paceline._data import own_generators
from paceline._data.fingerprint import kept_chance
from paceline.errors import DataError

Json = dict[str, object]
"""A JSON object."""

_KEPT_MAX = 64  # epochs whose states are kept
# Names of attributes that hold the number of ranks among which a sampler divides.
_SHARERS = ("num_replicas", "num_processes", "data_parallel_size", "world_size")


@dataclass(slots=True)
class Drawn:
    """An epoch's indices, the ends of a batch sampler's steps, and 16 digits of both."""

    indices: list[int]
    ends: list[int] = field(default_factory=list[int])
    digest: str = ""


class SamplerOrder:
    """Epochs of a sampler, or of a batch sampler: `SamplerOrder(sampler, …).epoch(3).indices`."""

    def __init__(self, sampler: Iterable[Any], *, in_batches: bool, seed: int, where: str) -> None:
        self._sampler = sampler
        self._in_batches = in_batches
        self._seed = seed
        self._where = where
        self._own = own_generators.find(sampler)
        self._before: dict[int, list[Json]] = {}  # states of its own generators, by epoch
        self._next = 0  # the first epoch that was not drawn yet
        self._drawn: tuple[int, Drawn] = (-1, Drawn([]))

    def epoch(self, epoch: int) -> Drawn:
        """The order of that epoch. The last result is kept."""
        if self._drawn[0] != epoch:
            self._drawn = (epoch, self._draw(epoch) if self._own else self._draw_once(epoch))
        return self._drawn[1]

    # ---- a checkpoint ----

    def state(self, epoch: int) -> Json:
        """Plain values from which that epoch's order can be drawn again. Draws nothing."""
        state: Json = {"epoch": epoch}
        if self._drawn[0] == epoch:
            state["digest"] = self._drawn[1].digest
        if self._own:
            known = self._before.get(epoch)
            state["generators"] = self._states() if known is None else known
        return state

    def load(self, state: object) -> None:
        """Continue from a saved state. Raises if that epoch's order has changed."""
        saved = cast("Json", state) if isinstance(state, dict) else {}
        epoch = saved.get("epoch")
        if not isinstance(epoch, int):
            return  # an older version saved no state
        self._drawn = (-1, Drawn([]))
        generators = saved.get("generators")
        if isinstance(generators, list):
            self._load_own(epoch, cast("list[Json]", generators))
        wanted = saved.get("digest")
        if wanted is not None and self.epoch(epoch).digest != wanted:
            raise DataError(
                what=f"the sampler gives another order of epoch {epoch} than before the restart",
                where=self._where,
                why=f"{_named(self._sampler)} draws from a source that is neither seed and "
                    "epoch nor a generator among its attributes, so samples would be read "
                    "twice or not at all",
                fix="let it draw from random, numpy.random or torch's default generator, "
                    "which paceline seeds; or from a generator that is an attribute of the "
                    "sampler",
            )

    def _load_own(self, epoch: int, states: list[Json]) -> None:
        fit = len(states) == len(self._own)
        if not fit or not all(one.fits(s) for one, s in zip(self._own, states, strict=True)):
            raise DataError(
                what="the sampler has other generators than before the restart",
                where=self._where,
                why=f"{_named(self._sampler)} has {_ways(self._own)} now",
                fix="use the sampler as it was, or leave the loader out of the state to start "
                    "from the first sample",
            )
        self._set(states)
        self._before = {epoch: states}
        self._next = epoch

    # ---- drawing ----

    def _draw(self, epoch: int) -> Drawn:
        """For generators that continue: draws the epochs one after the other."""
        if epoch >= self._next:
            for one in range(self._next, epoch):
                self._before[one] = self._states()
                self._draw_once(one)
            self._before[epoch] = self._states()
            self._next = epoch + 1
            drawn = self._draw_once(epoch)
            while len(self._before) > _KEPT_MAX:
                del self._before[min(self._before)]
            return drawn
        known = [one for one in self._before if one <= epoch]
        if not known:
            raise DataError(
                what=f"the order of epoch {epoch} is not known any more",
                where=self._where,
                why=f"{_named(self._sampler)} has generators of its own ({_ways(self._own)}), "
                f"whose states are known from epoch {min(self._before, default=self._next)} on",
                fix="ask for this epoch or later ones; set_epoch and the seed give any epoch",
            )
        after = self._states()
        self._set(self._before[max(known)])
        for one in range(max(known), epoch):
            self._draw_once(one)
        drawn = self._draw_once(epoch)
        self._set(after)
        return drawn

    def _draw_once(self, epoch: int) -> Drawn:
        told = getattr(self._sampler, "set_epoch", None)
        if callable(told):
            told(epoch)
        with kept_chance():
            seed_all(f"{self._seed}/{epoch}")
            found = list(self._sampler)
        if not self._in_batches:
            drawn = Drawn(_whole(found))
        else:
            drawn = Drawn([])
            for batch in found:
                if not isinstance(batch, Iterable):
                    raise DataError(
                        what=f"{_named(self._sampler)} does not yield batches",
                        where=self._where,
                        why=f"it yielded {batch!r}, which is not a list of indices",
                        fix="use sampler=… for single indices",
                    )
                drawn.indices += _whole(list(cast("Iterable[Any]", batch)))
                drawn.ends.append(len(drawn.indices))
        drawn.digest = _digest(drawn)
        return drawn

    def _states(self) -> list[Json]:
        return [one.state() for one in self._own]

    def _set(self, states: list[Json]) -> None:
        for one, state in zip(self._own, states, strict=True):
            one.load(state)


def must_be_whole(sampler: object, samples: int, where: str) -> None:
    """Raise if the sampler, or one nested in it, yields only one rank's share."""
    for one in own_generators.samplers_in(sampler):
        for name in _SHARERS:
            ranks = getattr(one, name, None)
            if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 2:
                continue
            length = getattr(one, "__len__", None)
            if length is not None and length() >= samples:
                continue  # it knows the number of ranks but yields all samples
            raise DataError(
                what=f"{_named(one)} yields the samples of one rank, and not all of them",
                where=where,
                why=f"its {name} is {ranks}; the loader would share that part among ranks again",
                fix="ElasticDataset(dataset, shuffle=True, seed=…), whose order all ranks share; "
                f"or a sampler over the whole data set ({name}=1)",
            )


def seed_all(text: str) -> None:
    """Seed Python's generator, and NumPy's and torch's if they are loaded."""
    chance = random.Random(text)
    random.seed(chance.getrandbits(64))
    words = chance.getrandbits(63)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(words)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(words & 0xFFFFFFFF)


def _whole(indices: list[Any]) -> list[Any]:
    """NumPy's integers and torch's one-element tensors as ints; other indices unchanged."""
    try:
        return [operator.index(one) for one in indices]
    except TypeError:
        return indices


def _digest(drawn: Drawn) -> str:
    total = hashlib.blake2b(digest_size=8)
    for numbers in (drawn.indices, drawn.ends):
        try:
            total.update(array("q", numbers).tobytes())
        except (TypeError, OverflowError):  # indices of the user's own kind
            total.update(repr(numbers).encode())
        total.update(b"|")
    return total.hexdigest()


def _named(sampler: object) -> str:
    return f"the sampler {type(sampler).__qualname__}"


def _ways(own: list[own_generators.OwnGenerator]) -> str:
    return ", ".join(one.way for one in own) or "none"
