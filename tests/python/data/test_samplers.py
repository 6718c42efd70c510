"""Samplers: the same order on every rank, in every epoch and after a restart, or a refusal."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from paceline._data import own_generators
from paceline._rank import progress

from paceline.data import DataError, ElasticDataset, ElasticLoader

torch: Any = pytest.importorskip("torch")
numpy: Any = pytest.importorskip("numpy")
data: Any = torch.utils.data

COUNT = 60
NUMBERS = list(range(COUNT))


def seeded(seed: int = 5) -> Any:
    chance = torch.Generator()
    chance.manual_seed(seed)
    return chance


class Draws:
    """A sampler whose `draw` has chance of its own."""

    def __init__(self, chance: Any, draw: Any) -> None:
        self.chance, self.draw = chance, draw

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        return iter(self.draw(self.chance))


def of_numpy(chance: Any) -> list[int]:
    return chance.permutation(COUNT).tolist()


class Steps:
    """A batch sampler around a sampler."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[int]]:
        drawn = list(self.sampler)
        return iter([drawn[i : i + 12] for i in range(0, COUNT, 12)])


ONCE = {
    "torch's, seeded by us": lambda: {"sampler": data.RandomSampler(NUMBERS)},
    "torch's with a generator": lambda: {
        "sampler": data.RandomSampler(NUMBERS, generator=seeded())},
    "a subset with a generator": lambda: {
        "sampler": data.SubsetRandomSampler(NUMBERS, generator=seeded())},
    "numpy's generator": lambda: {"sampler": Draws(numpy.random.default_rng(3), of_numpy)},
    "numpy's Philox": lambda: {"sampler": Draws(
        numpy.random.Generator(numpy.random.Philox(3)), of_numpy)},
    "numpy's RandomState": lambda: {"sampler": Draws(numpy.random.RandomState(3), of_numpy)},
    "Python's": lambda: {
        "sampler": Draws(random.Random(3), lambda chance: chance.sample(NUMBERS, COUNT))},
    "batches of torch's": lambda: {"batch_sampler": data.BatchSampler(
        data.RandomSampler(NUMBERS, generator=seeded()), 12, False)},
    "batches of numpy's": lambda: {
        "batch_sampler": Steps(Draws(numpy.random.default_rng(3), of_numpy))},
    "a part of one rank": lambda: {
        "sampler": data.distributed.DistributedSampler(NUMBERS, num_replicas=1, rank=0)},
}


def loaders(options: Any, world: int) -> list[ElasticLoader]:
    batch = None if "batch_sampler" in options() else 12
    return [ElasticLoader(ElasticDataset(NUMBERS, seed=4, **options()), global_batch=batch,
                          rank=rank, world_size=world) for rank in range(world)]


def read(ranks: list[ElasticLoader], epochs: int, steps: int) -> tuple[dict[int, list[int]], bool]:
    """The samples by epoch, of at most so many steps; whether all epochs ended."""
    seen: dict[int, list[int]] = {}
    while ranks[0].epoch < epochs:
        epoch = ranks[0].epoch
        for batches in zip(*ranks, strict=True):
            seen.setdefault(epoch, []).extend(sample for batch in batches for sample in batch)
            steps -= 1
            if steps == 0:
                return seen, False
    return seen, True


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("stops", [(3, 5), (5, 5), (7, 1)])
def test_each_sample_once_an_epoch_over_restarts_and_worlds(
    name: str, stops: tuple[int, int]
) -> None:
    """Worlds of 1, 3 and 2 ranks, each of new processes that begin with what rank 0 saved."""
    alone, _ = read(loaders(ONCE[name], 1), 3, 1000)
    total: dict[int, list[int]] = {}
    state: Any = None
    for world, stop in zip((1, 3, 2), (*stops, 1000), strict=True):
        ranks = loaders(ONCE[name], world)
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(json.loads(state))
        seen, _ = read(ranks, 3, stop)
        for epoch, samples in seen.items():
            total.setdefault(epoch, []).extend(samples)
        state = json.dumps(ranks[0].state_dict())
    for epoch in range(3):
        assert sorted(total[epoch]) == NUMBERS
        assert Counter(total[epoch]) == Counter(alone[epoch])
    assert total[0] != total[1], "another epoch, another order"


def test_an_order_without_a_restart_is_that_over_restarts() -> None:
    """Step by step, not as sets only."""
    for name in ONCE:
        straight, _ = read(loaders(ONCE[name], 1), 2, 1000)
        first = loaders(ONCE[name], 1)
        seen, _ = read(first, 2, 7)
        again = loaders(ONCE[name], 1)
        again[0].load_state_dict(first[0].state_dict())
        rest, _ = read(again, 2, 1000)
        assert seen[1] + rest[1] == straight[1], name


def test_an_unseeded_generator_alone_goes_on_too() -> None:
    options = {"sampler": Draws(numpy.random.default_rng(), of_numpy)}
    first = loaders(lambda: options, 1)
    seen, _ = read(first, 2, 3)
    other = loaders(lambda: {"sampler": Draws(numpy.random.default_rng(), of_numpy)}, 1)
    other[0].load_state_dict(first[0].state_dict())
    rest, _ = read(other, 1, 1000)
    assert sorted(seen[0] + rest[0]) == NUMBERS


def test_an_epoch_that_was_drawn_may_be_asked_for_again() -> None:
    made = ElasticDataset(NUMBERS, **ONCE["numpy's generator"]())
    orders = [made.indices(epoch, 0, COUNT) for epoch in range(4)]
    assert [made.indices(epoch, 0, COUNT) for epoch in (1, 3, 0, 2)] == [
        orders[1], orders[3], orders[0], orders[2]]
    fresh = ElasticDataset(NUMBERS, **ONCE["numpy's generator"]())
    assert fresh.indices(3, 0, COUNT) == orders[3], "one epoch after the other"
    later = ElasticDataset(NUMBERS, **ONCE["numpy's generator"]())
    later.load_sampler(made.sampler_state(2))
    assert later.indices(3, 0, COUNT) == orders[3]
    with pytest.raises(DataError, match="the order of epoch 1 is not known any more"):
        later.indices(1, 0, COUNT)


def test_chance_that_nobody_can_save_is_refused_at_the_restore() -> None:
    def options() -> Any:
        hidden = random.Random()  # of a closure, and unseeded
        return {"sampler": Draws(None, lambda _chance: hidden.sample(NUMBERS, COUNT))}

    first = loaders(options, 1)
    read(first, 1, 2)
    with pytest.raises(DataError, match="another order of epoch 0") as caught:
        loaders(options, 1)[0].load_state_dict(first[0].state_dict())
    assert "the sampler Draws" in caught.value.why
    other = loaders(ONCE["numpy's generator"], 1)
    read(other, 1, 2)
    with pytest.raises(DataError, match="other generators"):
        loaders(ONCE["Python's"], 1)[0].load_state_dict(other[0].state_dict())


def test_a_position_of_an_earlier_version_goes_on() -> None:
    first = loaders(ONCE["numpy's generator"], 1)
    seen, _ = read(first, 1, 2)
    state = first[0].state_dict()
    del state["sampler"]
    again = loaders(ONCE["numpy's generator"], 1)
    again[0].load_state_dict(state)
    rest, _ = read(again, 1, 1000)
    assert sorted(seen[0] + rest[0]) == NUMBERS


def test_a_sampler_of_one_rank_is_refused() -> None:
    distributed = data.distributed.DistributedSampler

    class Own(distributed):
        pass

    for sampler in (distributed(NUMBERS, 2, 0), Own(NUMBERS, 2, 1)):
        with pytest.raises(DataError, match="yields the samples of one rank"):
            ElasticDataset(NUMBERS, sampler=sampler)
        with pytest.raises(DataError, match="yields the samples of one rank"):
            ElasticDataset(NUMBERS, batch_sampler=data.BatchSampler(sampler, 4, False))
    from paceline.torch import ElasticLoader as TorchLoader

    own = data.DataLoader(NUMBERS, batch_size=4, sampler=Own(NUMBERS, 2, 1))
    with pytest.raises(DataError, match="yields the samples of one rank"):
        TorchLoader.wrap(own, global_batch=8, rank=1, world_size=2)
    whole = data.DataLoader(NUMBERS, batch_size=4, sampler=Own(NUMBERS, 1, 0, shuffle=False))
    assert next(b.tolist() for b in TorchLoader.wrap(whole, global_batch=20)) == NUMBERS[:20]


def test_a_sampler_that_knows_the_ranks_and_yields_everything_is_taken() -> None:
    sampler = Draws(numpy.random.default_rng(3), of_numpy)
    vars(sampler)["world_size"] = 4
    assert sorted(ElasticDataset(NUMBERS, sampler=sampler).indices(0, 0, COUNT)) == NUMBERS


@pytest.mark.parametrize(("ranks", "expected"), [(2, (1, 2)), (4, (3, 4)), (1, (3, 4))])
def test_wrap_shares_as_the_sampler_of_tensor_parallel_ranks(
    monkeypatch: pytest.MonkeyPatch, ranks: int, expected: tuple[int, int]
) -> None:
    from paceline.torch import ElasticLoader as TorchLoader

    monkeypatch.setattr(progress, "rank", lambda: 3)
    monkeypatch.setattr(progress, "world_size", lambda: 4)
    sampler = data.distributed.DistributedSampler(NUMBERS, ranks, 3 * ranks // 4)
    wrapped = TorchLoader.wrap(data.DataLoader(NUMBERS, batch_size=4, sampler=sampler),
                               global_batch=8)
    assert (wrapped.rank, wrapped.world_size) == expected
    told = TorchLoader.wrap(data.DataLoader(NUMBERS, batch_size=4, sampler=sampler),
                            global_batch=8, rank=0, world_size=2)
    assert (told.rank, told.world_size) == (0, 2)


def test_wrap_refuses_a_sampler_of_groups_that_the_world_does_not_have(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline.torch import ElasticLoader as TorchLoader

    monkeypatch.setattr(progress, "world_size", lambda: 4)
    for ranks in (3, 8):
        sampler = data.distributed.DistributedSampler(NUMBERS, ranks, 0)
        with pytest.raises(DataError, match=f"shares among {ranks} ranks"):
            TorchLoader.wrap(data.DataLoader(NUMBERS, batch_size=4, sampler=sampler),
                             global_batch=12)


def test_own_generators_are_found_in_samplers_and_not_in_data_sets() -> None:
    class Set(list[int]):
        pass

    held = Set(NUMBERS)
    held.chance = random.Random(1)  # pyright: ignore[reportAttributeAccessIssue]
    inner = data.RandomSampler(held, generator=seeded())
    outer = Steps(inner)
    vars(outer)["more"] = [Draws(random.Random(2), None), random.SystemRandom()]
    vars(inner)["around"] = outer  # a circle ends
    found = own_generators.find(outer)
    assert [(one.way, one.kind) for one in found] == [
        ("more.0.chance", "python"), ("sampler.generator", "torch")]
    for one in found:
        state = json.loads(json.dumps(one.state()))
        one.load(state)
        assert one.state() == state
