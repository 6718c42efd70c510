"""The order against its twin, its cut at every world size, mixtures, and what is refused."""

import pytest
from order_twin import blocked, forward, mixture, permutation
from paceline._native import EpochOrder, Mixture

from paceline.data import (
    ArgumentError,
    DataError,
    ElasticDataset,
    ElasticLoader,
    ElasticMixture,
    StreamLoader,
)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 100, 1023, 70_000])
def test_the_order_is_that_of_its_specification(count: int) -> None:
    places = range(count) if count < 2000 else range(0, count, 977)
    for seed, epoch in ((0, 0), (7, 3), (2**53 - 1, 12)):
        order = EpochOrder(count, seed, epoch)
        for place in places:
            assert order.sample_at(place) == forward(place, count, seed, epoch, 0)


def test_blocks_and_mixtures_are_those_of_the_specification() -> None:
    for count, block, window in ((23, 4, 2), (40, 5, 3), (7, 10, 1), (101, 1, 7)):
        order = EpochOrder(count, 7, 1, "blocked", block, window)
        assert order.samples(0, count) == blocked(count, 7, 1, block, window)
    mixed = Mixture([3, 5, 1], 9)
    for period in range(4):
        places = range(9 * period, 9 * period + 9)
        assert [mixed.at(place) for place in places] == mixture([3, 5, 1], 9, period)


def test_golden_values_of_the_specification() -> None:
    assert permutation(10, 7, 0, 0) == [7, 3, 8, 5, 0, 1, 2, 6, 9, 4]
    order = EpochOrder(10**12, 7, 3)
    assert [order.sample_at(p) for p in (0, 1, 10**12 - 1)] == [
        243490562302, 601509556418, 531162061119]
    assert order.ordinal_of(531162061119) == 10**12 - 1


def test_what_is_beyond_the_order_raises() -> None:
    order = EpochOrder(10, 7, 0)
    for call in (lambda: order.sample_at(10), lambda: order.ordinal_of(10),
                 lambda: order.samples(3, 11), lambda: order.samples(4, 3)):
        with pytest.raises(ValueError, match=r"beyond"):
            call()


def loaders(
    data: ElasticDataset, world: int, batch: int | None, **more: object
) -> list[ElasticLoader]:
    return [ElasticLoader(data, global_batch=batch, rank=rank, world_size=world, **more)
            for rank in range(world)]  # pyright: ignore[reportArgumentType]


def test_steps_are_the_same_sets_in_every_world_that_changes_all_the_time() -> None:
    data = ElasticDataset(range(1000, 1103), seed=7)
    alone = list(ElasticLoader(data, global_batch=16, rank=0, world_size=1))
    state, steps = None, []
    for world in [3, 1, 5, 2, 7, 4] * 3:
        ranks = loaders(data, world, 16)
        if state is not None:
            for loader in ranks:
                loader.load_state_dict(state)
        if ranks[0].epoch:
            break
        parts = [batch for loader in ranks if (batch := next(iter(loader), None)) is not None]
        if parts:
            assert len(parts) == world
            steps.append([sample for part in parts for sample in part])
        states = [loader.state_dict() for loader in ranks]
        assert all(one == states[0] for one in states)
        state = states[0]
    assert steps == alone
    assert sorted(sample for step in steps for sample in step) == list(range(1000, 1103))


def test_a_batch_counts_when_it_is_yielded_and_an_older_state_rewinds() -> None:
    data = ElasticDataset(range(50), seed=1)
    loader = ElasticLoader(data, global_batch=8)
    whole = list(loader)
    assert loader.epoch == 1 and len(whole) == len(loader) == 7
    again = ElasticLoader(data, global_batch=8)
    iterator = iter(again)
    next(iterator), next(iterator)
    state = again.state_dict()
    assert (state["epoch"], state["consumed"]) == (0, 16)
    next(iterator)
    again.load_state_dict(state)
    with pytest.raises(DataError, match="two iterators"):
        next(iterator)
    assert list(again) == whole[2:]
    assert next(iter(again)) != whole[0], "another epoch, another order"


def test_the_last_step_of_an_epoch_is_saved_before_the_epoch_ends() -> None:
    """So that what follows the loop, a schedule or an evaluation, is done once more and not left
    out when a job dies between the two."""
    data = ElasticDataset(range(10), shuffle=False)
    loader = ElasticLoader(data, global_batch=5)
    states = [loader.state_dict() for _ in loader]
    again = ElasticLoader(data, global_batch=5)
    again.load_state_dict(states[-1])
    assert again.epoch == 0
    assert list(again) == [] and again.epoch == 1


def test_micro_batches_add_up_to_the_step_and_their_weights_to_its_mean() -> None:
    data = ElasticDataset([float(i) for i in range(70)], seed=3)
    for world, micro in ((1, 7), (3, 4), (4, 2), (2, None)):
        seen: list[float] = []
        ranks = loaders(data, world, 32, micro_batch=micro)
        assert len({len(loader) for loader in ranks}) == 1
        averaged = 0.0
        for loader in ranks:
            ends = 0
            for batch in loader:
                seen += batch
                averaged += loader.weight * sum(batch) / len(batch) / world
                ends += loader.ends_step
                assert micro is None or len(batch) <= micro
            assert ends == 3
        assert sorted(seen) == list(map(float, range(70)))
        order = data.indices(0, 0, 70)
        means = [sum(order[a:b]) / (b - a) for a, b in ((0, 32), (32, 64), (64, 70))]
        assert averaged == pytest.approx(sum(means))


def test_evaluation_may_leave_a_rank_without_a_share() -> None:
    data = ElasticDataset(range(9), shuffle=False)
    found = [list(one) for one in loaders(data, 4, 4, even_steps=False)]
    assert [len(one) for one in found] == [3, 2, 2, 2]
    assert sorted(x for one in found for batch in one for x in batch) == list(range(9))


def test_mixtures_are_exact_and_read_each_set_in_its_own_epochs() -> None:
    sets = {"web": [f"w{i}" for i in range(30)], "code": [f"c{i}" for i in range(7)]}
    data = ElasticMixture(sets, weights={"web": 0.75, "code": 0.25}, seed=5)
    assert len(data) == 40
    read = [sample for batch in ElasticLoader(data, global_batch=4) for sample in batch]
    for begin in range(0, 40, 4):
        assert sum(sample[0] == "c" for sample in read[begin : begin + 4]) == 1
    web = [sample for sample in read if sample[0] == "w"]
    code = [sample for sample in read if sample[0] == "c"]
    assert sorted(web) == sorted(sets["web"]), "one epoch"
    assert sorted(code[:7]) == sorted(sets["code"]), "its first epoch, then the next"
    assert len(set(code[7:])) == 3


class Draws:
    """A sampler with chance: as torch's, it is asked once an epoch."""

    def __init__(self) -> None:
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 12

    def __iter__(self):
        import random

        return iter([random.randrange(50) for _ in range(12)])


def test_any_sampler_gives_the_same_order_to_every_rank_and_after_a_restart() -> None:
    sampler = Draws()
    data = ElasticDataset(range(50), sampler=sampler, seed=2)
    first = [list(one) for one in loaders(data, 2, 4)]
    again = ElasticDataset(range(50), sampler=Draws(), seed=2)
    assert [list(one) for one in loaders(again, 2, 4)] == first
    assert sampler.epoch == 0
    assert data.indices(1, 0, 12) != data.indices(0, 0, 12)


class Buckets:
    """Batches of unequal size, as those that are made by length."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self):
        yield from ([self.epoch, 1, 2], [3, 4, 5, 6, 7], [8, 9])


def test_a_batch_sampler_makes_the_steps() -> None:
    data = ElasticDataset(range(10), batch_sampler=Buckets())
    found = [list(one) for one in loaders(data, 2, None)]
    assert found == [[[0, 1], [3, 4, 5], [8]], [[2], [6, 7], [9]]]
    loader = ElasticLoader(data)
    assert len(loader) == 3
    assert next(iter(loader)) == [0, 1, 2]
    state = loader.state_dict()
    ranks = loaders(ElasticDataset(range(10), batch_sampler=Buckets()), 2, None)
    for one in ranks:
        one.load_state_dict(state)
    assert [list(one) for one in ranks] == [[[3, 4, 5], [8]], [[6, 7], [9]]]
    assert next(iter(ranks[0])) == [1, 1], "the next epoch"


@pytest.mark.parametrize(("make", "word"), [
    (lambda: ElasticLoader(ElasticDataset([1] * 9)), "global_batch=None"),
    (lambda: ElasticLoader(ElasticDataset([1] * 9, batch_sampler=[[1]]), global_batch=3),
     "leave it out"),
    (lambda: loaders(ElasticDataset(range(10), batch_sampler=Buckets()), 3, None),
     "a step of 2 samples"),
    (lambda: ElasticDataset([1], sampler=[0], batch_sampler=[[0]]), "one of both"),
    (lambda: ElasticDataset(iter([1])), "no length"),  # pyright: ignore
    (lambda: ElasticDataset({1, 2}), "__getitem__"),  # pyright: ignore
    (lambda: ElasticDataset([]), "empty"),
    (lambda: ElasticDataset([1], seed=-1), "seed=-1"),
    (lambda: ElasticDataset([1], seed=True), "seed=True"),
    (lambda: ElasticDataset([1], shuffle=1), "shuffle=1"),  # pyright: ignore
    (lambda: ElasticDataset([1], block=0), "block=0"),
    (lambda: ElasticDataset([1], window=3), "window=3"),
    (lambda: ElasticDataset([1], shuffle=False, block=3), "block=3"),
    (lambda: ElasticMixture({"a": [1]}, weights={"b": 1}), "weights"),
    (lambda: ElasticMixture({"a": [1]}, weights={"a": 0}), "weights"),
    (lambda: ElasticMixture({"a": [1]}, weights={"a": 1}, length=0), "length=0"),
    (lambda: ElasticLoader([1, 2], global_batch=1), "no order"),  # pyright: ignore
    (lambda: ElasticLoader(ElasticDataset([1] * 9), global_batch=0), "global_batch=0"),
    (lambda: loaders(ElasticDataset([1] * 9), 4, 3), "too small for 4 ranks"),
    (lambda: loaders(ElasticDataset([1] * 9), 4, 8), "the last step of the epoch has 1 sample"),
    (lambda: loaders(ElasticDataset([1] * 9), 1, 10, drop_last=True), "no whole step"),
    (lambda: loaders(ElasticDataset([1] * 9), 1, 3, micro_batch=0), "micro_batch=0"),
    (lambda: ElasticLoader(ElasticDataset([1] * 9), global_batch=3, rank=2, world_size=2),
     "rank 2 is not in a world of 2"),
])
def test_what_cannot_work_is_refused_before_training(make, word: str) -> None:
    with pytest.raises((ArgumentError, DataError)) as caught:
        make()
    text = str(caught.value)
    assert word in text
    assert all(f"\n  {part}" in text for part in ("where", "why", "fix"))


def test_who_drops_the_last_step_is_not_told_to() -> None:
    for drops in (False, True):
        with pytest.raises(DataError) as caught:
            loaders(ElasticDataset([1] * 9), 4, 3, drop_last=drops)
        assert ("drop_last=True" in caught.value.fix) is not drops


def refusal(old: ElasticDataset, new: ElasticDataset) -> str:
    state = ElasticLoader(old, global_batch=2).state_dict()
    with pytest.raises(DataError) as caught:
        ElasticLoader(new, global_batch=2).load_state_dict(state)
    return str(caught.value)


def test_other_data_is_refused() -> None:
    numbers = list(range(20))
    told = refusal(ElasticDataset(numbers), ElasticDataset(numbers[:-1]))
    assert "it has 19 samples and had 20" in told
    assert "seed is 2, and was 1" in refusal(
        ElasticDataset(numbers, seed=1), ElasticDataset(numbers, seed=2))
    assert "shuffle is none" in refusal(
        ElasticDataset(numbers), ElasticDataset(numbers, shuffle=False))
    assert "name is eval, and was train" in refusal(
        ElasticDataset(numbers, name="train"), ElasticDataset(numbers, name="eval"))
    with pytest.raises(DataError, match="not a position"):
        ElasticLoader(ElasticDataset(numbers), global_batch=2).load_state_dict({"epoch": 1})


class Stream:
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def test_a_stream_goes_on_by_skipping_ahead_in_any_world() -> None:
    loader = StreamLoader(Stream(50), global_batch=8, rank=0, world_size=1)
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [list(range(8)), list(range(8, 16))]
    ranks = [StreamLoader(Stream(50), global_batch=8, rank=r, world_size=3, even_steps=False)
             for r in range(3)]
    seen: list[int] = []
    for one in ranks:
        one.load_state_dict(loader.state_dict())
        for batch in one:
            seen += batch
        assert (one.epoch, one.consumed) == (1, 0)
    assert sorted(seen) == list(range(16, 50))
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(DataError, match="two iterators"):
        next(iterator)
    short = StreamLoader(Stream(10), global_batch=8)
    short.load_state_dict(loader.state_dict())
    with pytest.raises(DataError, match="has only 10"):
        next(iter(short))
    dropped = StreamLoader(Stream(50), global_batch=8, rank=1, world_size=2, drop_last=True)
    assert len(list(dropped)) == 6


@pytest.mark.parametrize(("options", "word"), [
    ({"stream": iter([1])}, "cannot be read again"),
    ({"world_size": 2, "rank": 0}, "length is not known"),
    ({"world_size": 9, "rank": 0}, "too small for 9 ranks"),
    ({"global_batch": 0}, "global_batch=0"),
])
def test_streams_that_cannot_be_shared_are_refused(options, word: str) -> None:
    with pytest.raises((ArgumentError, DataError), match=word):
        StreamLoader(**{"stream": Stream(9), "global_batch": 8, **options})
