"""Cuts by measured speed: worlds of threads with clocks of their own, so that nothing waits."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from paceline._data.cut import Clock
from paceline._data.loader import Share

from paceline.data import ArgumentError, CutBySpeed, DataError, ElasticDataset, ElasticLoader

SAMPLES, BATCH = 1003, 48


class Ahead(ElasticLoader):
    """Reads `ahead` batches before it yields one, as DataLoader's workers do."""

    ahead = 0

    def _read(self, shares: Iterator[Share]) -> Iterator[Any]:
        ready: deque[Any] = deque()
        for share in shares:
            ready.append(share.indices)
            if len(ready) > self.ahead:
                yield ready.popleft()
        yield from ready


class World:
    """Ranks that are threads; a step takes rank r `seconds(r, epoch, step) * samples`."""

    def __init__(self, size: int, seconds: Callable[[int, int], float], **options: Any) -> None:
        self.size = size
        self.seconds = seconds
        self.rows: dict[int, list[float]] = {}
        self.barrier = threading.Barrier(size)
        self.clocks = [0.0] * size
        aheads = options.pop("aheads", [0] * size)
        cut = options.pop("cut", {"every": 1})
        self.loaders = [self.made(rank, aheads[rank], cut, options) for rank in range(size)]
        self.read: list[list[Share]] = [[] for _ in range(size)]
        self.errors: list[BaseException] = []

    def made(self, rank: int, ahead: int, cut: dict[str, Any], options: dict[str, Any]) -> Ahead:
        def gather(row: list[float]) -> list[list[float]]:
            self.rows[rank] = row
            self.barrier.wait(30)
            rows = [self.rows[r] for r in range(self.size)]
            self.barrier.wait(30)
            return rows

        chosen: dict[str, Any] = {"global_batch": BATCH, **options}
        loader = Ahead(ElasticDataset(range(SAMPLES), seed=7), rank=rank, world_size=self.size,
                       cut=CutBySpeed(gather=gather, **cut), **chosen)
        loader.ahead = ahead
        assert loader.by_speed is not None
        loader.by_speed.use_clock(Clock(mark=lambda: self.clocks[rank]))
        return loader

    def train(self, steps: int) -> None:
        """So many steps of every rank, from where the loaders stand."""
        threads = [threading.Thread(target=self.rank, args=(r, steps)) for r in range(self.size)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        if self.errors:
            raise self.errors[0]

    def rank(self, rank: int, steps: int) -> None:
        try:
            loader = self.loaders[rank]
            while steps > 0:
                for batch in loader:
                    assert loader.current is not None and batch == loader.current.indices
                    self.read[rank].append(loader.current)
                    self.clocks[rank] += self.seconds(rank, len(self.read[rank])) * len(batch)
                    if loader.ends_step:
                        loader.worked()
                        steps -= 1
                        if steps == 0:
                            break
        except BaseException as error:
            self.errors.append(error)
            self.barrier.abort()

    def states(self) -> list[dict[str, Any]]:
        return [loader.state_dict() for loader in self.loaders]

    def steps(self) -> list[tuple[int, int, list[int]]]:
        """Of each step: epoch, first ordinal, samples of all ranks; cuts must be gapless."""
        found: dict[tuple[int, int], list[Share]] = {}
        for shares in self.read:
            for share in shares:
                found.setdefault((share.epoch, share.step[0]), []).append(share)
        steps: list[tuple[int, int, list[int]]] = []
        for (epoch, begin), parts in sorted(found.items()):
            at = begin
            for part in sorted(parts, key=lambda one: one.begin):
                assert part.begin == at, f"a gap or a repetition at {epoch}/{at}"
                at = part.end
            assert at == parts[0].step[1]
            assert sum(one.weight for one in parts) == pytest.approx(self.size)
            steps.append((epoch, begin, sorted(i for one in parts for i in one.indices)))
        return steps


def alone(epochs: int) -> list[tuple[int, int, list[int]]]:
    loader = ElasticLoader(ElasticDataset(range(SAMPLES), seed=7), global_batch=BATCH, rank=0,
                           world_size=1)
    found = []
    for epoch in range(epochs):
        for batch in loader:
            assert loader.current is not None
            found.append((epoch, loader.current.step[0], sorted(batch)))
    return found


def slow(rank: int, factor: float) -> Callable[[int, int], float]:
    return lambda who, _: 0.01 * (factor if who == rank else 1)


STEPS = -(-SAMPLES // BATCH)
SLOW = [15, 15, 4, 14]  # 0.15 seconds a step instead of 0.36; 14.4 and 4.8 were ideal


def test_a_slow_rank_reads_less_and_steps_are_the_same_sets() -> None:
    world = World(4, slow(2, 3))
    world.train(3 * STEPS)
    assert world.steps() == alone(3)
    assert [loader.shares for loader in world.loaders] == [SLOW] * 4
    assert all(one.state_dict() == world.states()[0] for one in world.loaders)


def test_a_slow_rank_is_known_after_six_steps_and_then_looked_at_as_asked() -> None:
    world = World(4, slow(1, 4), cut={"every": 50})
    world.train(12)
    sizes = [len(share.indices) for share in world.read[1]]
    assert sizes[:6] == [BATCH // 4] * 6
    assert sizes[6] < BATCH // 4
    assert sizes[6:] == [sizes[6]] * 6, "the next look is after 56 steps"


def test_equal_ranks_keep_an_even_cut() -> None:
    world = World(4, slow(0, 1))
    world.train(4 * STEPS)
    assert world.loaders[0].shares == [12, 12, 12, 12]
    assert world.steps() == alone(4)


@pytest.mark.parametrize("aheads", [[0, 3, 7, 1], [30, 0, 0, 0]])
def test_ranks_that_read_ahead_by_different_numbers_change_at_the_same_step(aheads) -> None:
    """Slowness that wanders makes many changes; each comes into force where nobody has read."""
    wandering = lambda rank, step: 0.01 * (4 if (step // 12) % 4 == rank else 1)  # noqa: E731
    world = World(4, wandering, aheads=aheads)
    world.train(6 * STEPS)
    assert world.steps() == alone(6)
    sizes = {tuple(len(shares[i].indices) for shares in world.read) for i in range(6 * STEPS)}
    assert len(sizes) > 3, "it did change"


def test_micro_batches_are_as_many_on_each_rank_and_never_larger_or_empty() -> None:
    world = World(3, slow(0, 4), micro_batch=4)
    world.train(3 * STEPS)
    assert world.steps() == alone(3)
    assert world.loaders[0].shares[0] < 10 < world.loaders[0].shares[1]
    parts: dict[tuple[int, int], list[int]] = {}
    for rank, shares in enumerate(world.read):
        for share in shares:
            assert 1 <= len(share.indices) <= 4
            parts.setdefault((share.epoch, share.step[0]), [0, 0, 0])[rank] += 1
    assert all(min(counts) == max(counts) for counts in parts.values())


def test_a_restart_goes_on_with_the_same_cut_also_with_one_that_is_still_to_come() -> None:
    first = World(4, slow(1, 4), aheads=[6, 6, 6, 6])
    first.train(8)  # decided after a few steps, in force behind what was read ahead
    states = first.states()
    assert all(state == states[0] for state in states)
    assert len(states[0]["cut"]["eras"]) == 2, "one in force, one to come"
    first.train(STEPS)
    again = World(4, slow(1, 4), cut={"every": 10_000})  # nothing is decided anew
    for loader in again.loaders:
        loader.load_state_dict(states[0])
    again.train(4)
    sizes = [[len(shares[i].indices) for i in range(12)] for shares in first.read]
    redone = [[len(one.indices) for one in shares] for shares in again.read]
    assert redone == [one[8:12] for one in sizes]
    again.train(4)
    assert again.loaders[0].shares[1] < 8
    assert again.loaders[0].state_dict()["cut"]["eras"][0][2:] == again.loaders[0].shares


def test_another_world_or_batch_begins_evenly_and_so_does_what_does_not_fit() -> None:
    first = World(4, slow(1, 4))
    first.train(10)
    state = first.states()[0]
    assert max(state["cut"]["eras"][0][2:]) > 12
    assert World(4, slow(0, 1)).loaders[0].shares == [12] * 4
    for size, saved in (
        (3, state),
        (4, {**state, "cut": {**state["cut"], "global_batch": 44}}),
        (4, {**state, "cut": {**state["cut"], "eras": [[0, 0, 48, 0, 0, 0]]}}),
        (4, {**state, "cut": {**state["cut"], "eras": [[0, 0, 12, 12]]}}),
        (4, {**state, "cut": {**state["cut"], "eras": "evil"}}),
        (4, {key: value for key, value in state.items() if key != "cut"}),
    ):
        world = World(size, slow(0, 1))
        for loader in world.loaders:
            loader.load_state_dict(saved)
        assert world.loaders[0].shares == [BATCH // size] * size
        world.train(5)
        world.steps()
    plain = ElasticLoader(ElasticDataset(range(SAMPLES), seed=7), global_batch=BATCH, rank=0,
                          world_size=4)
    plain.load_state_dict(state)
    assert plain.shares == [12] * 4, "without cut= it is even again"
    assert len(next(iter(plain))) == 12


def test_without_a_word_about_own_work_nothing_changes_and_that_is_said(caplog) -> None:
    world = World(2, slow(0, 5))
    for loader in world.loaders:
        loader.worked = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    world.train(40)
    assert world.loaders[0].shares == [24, 24]
    assert sum("never reported" in record.message for record in caplog.records) == 2


def test_a_change_is_told_once_with_its_reason(caplog) -> None:
    caplog.set_level("INFO", logger="paceline")
    world = World(2, slow(0, 5))
    world.train(STEPS)
    told = [record.getMessage() for record in caplog.records]
    assert told and "rank 0 takes" in told[0] and "steps are cut to" in told[0]


def test_ranks_with_other_arguments_are_told_at_the_first_look() -> None:
    world = World(2, slow(0, 5))
    world.loaders[1] = world.made(1, 0, {"every": 1, "most": 1.5}, {})
    with pytest.raises(DataError, match="would cut the next steps differently"):
        world.train(3)


@pytest.mark.parametrize(("options", "told"), [
    ({"virtual_ranks": 4}, "virtual ranks have even shares"),
    ({"even_steps": False}, "some ranks skip a step"),
    ({"micro_batch": 1}, "with micro_batch=1, every cut is even"),
    ({"global_batch": 4}, "every cut is even"),
    ({"cut": CutBySpeed()}, "no communication between ranks"),
])
def test_what_has_to_be_even_is_refused(options: dict[str, Any], told: str) -> None:
    cut = CutBySpeed(gather=lambda row: [row] * 4)
    chosen: dict[str, Any] = {"global_batch": 48, "cut": cut, **options}
    with pytest.raises(DataError, match=told):
        ElasticLoader(ElasticDataset(range(100)), rank=0, world_size=4, **chosen)


def test_bad_arguments_are_refused() -> None:
    for options in ({"most": 0.5}, {"least": 0}, {"every": 0}, {"gain": 1}, {"gain": -0.1}):
        with pytest.raises(ArgumentError, match="is not allowed"):
            CutBySpeed(**options)
