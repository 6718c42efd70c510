"""The order that a sampler gives to all ranks: drawn once an epoch, the same after a restart.

A sampler draws its indices under random numbers that follow from seed and epoch. Where it has
generators of its own, which go on from epoch to epoch, their states before each epoch are kept and
saved. Whether an order is the same one after a restart and on all ranks is seen by its digest.
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

_KEPT_MAX = 64  # epochs whose states are remembered
# Attributes by which samplers know how many ranks share what they yield.
_SHARERS = ("num_replicas", "num_processes", "data_parallel_size", "world_size")


@dataclass(slots=True)
class Drawn:
    """An epoch's indices, where the steps of a batch sampler end, and 16 digits of both."""

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
        self._next = 0  # the first epoch that was never drawn
        self._drawn: tuple[int, Drawn] = (-1, Drawn([]))

    def epoch(self, epoch: int) -> Drawn:
        """The order of that epoch. The last one that was asked for is kept."""
        if self._drawn[0] != epoch:
            self._drawn = (epoch, self._draw(epoch) if self._own else self._draw_once(epoch))
        return self._drawn[1]

    # ---- a checkpoint ----

    def state(self, epoch: int) -> Json:
        """What gives the order of that epoch again; plain values. Draws nothing."""
        state: Json = {"epoch": epoch}
        if self._drawn[0] == epoch:
            state["digest"] = self._drawn[1].digest
        if self._own:
            known = self._before.get(epoch)
            state["generators"] = self._states() if known is None else known
        return state

    def load(self, state: object) -> None:
        """Go on from there. Raises when the order of that epoch is not the one that it was."""
        saved = cast("Json", state) if isinstance(state, dict) else {}
        epoch = saved.get("epoch")
        if not isinstance(epoch, int):
            return  # of a version that saved nothing of it
        self._drawn = (-1, Drawn([]))
        generators = saved.get("generators")
        if isinstance(generators, list):
            self._load_own(epoch, cast("list[Json]", generators))
        wanted = saved.get("digest")
        if wanted is not None and self.epoch(epoch).digest != wanted:
            raise DataError(
                what=f"the sampler gives another order of epoch {epoch} than before the restart",
                where=self._where,
                why=f"{_named(self._sampler)} draws by something that is neither seed and epoch "
                "nor a generator among its attributes, so some samples would come twice",
                fix="draw by random, numpy.random or torch's default generator, which paceline "
                "seeds; or by a generator that is an attribute of the sampler",
            )

    def _load_own(self, epoch: int, states: list[Json]) -> None:
        fit = len(states) == len(self._own)
        if not fit or not all(one.fits(s) for one, s in zip(self._own, states, strict=True)):
            raise DataError(
                what="the sampler has other generators than before the restart",
                where=self._where,
                why=f"{_named(self._sampler)} has {_ways(self._own)} now",
                fix="the sampler as it was; or leave the loader out of the state to begin anew",
            )
        self._set(states)
        self._before = {epoch: states}
        self._next = epoch

    # ---- drawing ----

    def _draw(self, epoch: int) -> Drawn:
        """With generators that go on: epochs are drawn one after the other."""
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
                        what=f"{_named(self._sampler)} gives no batches",
                        where=self._where,
                        why=f"it yielded {batch!r}, which is no list of indices",
                        fix="sampler=… for single indices",
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
    """Raise when the sampler, or one inside of it, yields what one of several ranks reads."""
    for one in own_generators.samplers_in(sampler):
        for name in _SHARERS:
            ranks = getattr(one, name, None)
            if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 2:
                continue
            length = getattr(one, "__len__", None)
            if length is not None and length() >= samples:
                continue  # it knows how many ranks there are, and yields all samples
            raise DataError(
                what=f"{_named(one)} yields the samples of one rank, and not all of them",
                where=where,
                why=f"its {name} is {ranks}; the loader would share that part among ranks again",
                fix="ElasticDataset(dataset, shuffle=True, seed=…), whose order all ranks share; "
                f"or a sampler over the whole data set ({name}=1)",
            )


def seed_all(text: str) -> None:
    """Seeds Python's generator, and NumPy's and torch's where they are loaded."""
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
    """NumPy's numbers and torch's tensors of one number as ints; other kinds of indices stay."""
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
