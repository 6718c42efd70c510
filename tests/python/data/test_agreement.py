"""Ranks that read other orders are told, through a store and through an agent, without waiting."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from paceline._data import agreement
from paceline._data.agreement import Agreement, Differs, MasterChannel, StoreChannel
from paceline._rank import progress

from paceline.data import DataError, ElasticDataset, ElasticLoader, StreamLoader


class Store:
    """A store as those of process groups, of all ranks in this process."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def of(self, rank: int) -> Any:
        store = self

        class Seen:
            def __init__(self) -> None:
                self.rank = rank

            def put(self, key: str, text: str) -> None:
                store.entries[key] = text

            def read(self, key: str) -> str | None:
                return store.entries.get(key)

            def count(self, key: str) -> int:
                store.counts[key] = store.counts.get(key, 0) + 1
                return store.counts[key]

        return Seen()


class World:
    """Each rank's loaders are made and used as the rank: `with world.rank(1): …`."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        store = Store()
        self.channels = [StoreChannel(store.of(rank)) for rank in range(size)]
        self.made: list[Any] = [agreement._made.__class__() for _ in range(size)]
        self.patch = monkeypatch
        monkeypatch.setattr(agreement, "_LOOK_SECONDS", 0.0)

    def be(self, rank: int) -> None:
        self.patch.setattr(agreement, "_channel", self.channels[rank])
        self.patch.setattr(agreement, "_pid", os.getpid())
        self.patch.setattr(agreement, "_made", self.made[rank])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(2, monkeypatch)


def steps(world: World, make: Any, limit: int = 100) -> list[str]:
    """What each of two ranks is told, in lockstep; "" for nothing."""
    iterators: list[Any] = []
    for rank in range(2):
        world.be(rank)
        iterators.append(iter(make(rank)))
    told = ["", ""]
    for _ in range(limit):
        for rank in range(2):
            world.be(rank)
            try:
                next(iterators[rank])
            except StopIteration:
                return told
            except DataError as error:
                told[rank] = str(error)
        if all(told):
            return told
    return told


def loader(rank: int, **options: Any) -> Any:
    data = ElasticDataset(range(40), **options)
    return ElasticLoader(data, global_batch=4, rank=rank, world_size=2)


class Own:
    """A sampler with a generator of its own; without a seed each rank has another order."""

    def __init__(self, seed: int | None) -> None:
        import random

        self.chance = random.Random(seed)

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Any:
        return iter(self.chance.sample(range(40), 40))


def test_equal_orders_are_told_nothing(world: World) -> None:
    assert steps(world, loader) == ["", ""]
    assert steps(world, lambda rank: loader(rank, sampler=Own(3))) == ["", ""]


@pytest.mark.parametrize("make", [
    lambda rank: loader(rank, sampler=Own(None)),
    lambda rank: loader(rank, seed=rank),
    lambda rank: loader(rank, shuffle=rank == 0),
])
def test_a_difference_ends_a_step_on_all_ranks(world: World, make: Any) -> None:
    for text in steps(world, make):
        assert "ranks read this data in different orders" in text
        assert "rank 0 and rank 1" in text
        assert "epoch 0" in text


def test_a_loader_of_one_rank_is_compared_with_nothing(world: World) -> None:
    """Rank 0 evaluates alone: it has a loader more, of a world of one, and goes on."""
    def make(rank: int) -> Any:
        if rank == 0:
            alone = ElasticDataset(range(40), sampler=Own(None))
            list(ElasticLoader(alone, global_batch=4, rank=0, world_size=1))
        return loader(rank)

    assert steps(world, make) == ["", ""]
    world.be(0)
    assert len(list(loader(0, sampler=Own(None), name="eval"))) == 10, "nobody waits"


def test_loaders_of_different_names_are_not_compared(world: World) -> None:
    assert steps(world, lambda rank: loader(rank, seed=rank, name=f"of {rank}")) == ["", ""]


class Stream:
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __iter__(self) -> Any:
        return iter(self.samples)


def stream(rank: int, samples: list[Any], **options: Any) -> Any:
    return StreamLoader(Stream(samples), global_batch=4, drop_last=True, rank=rank, world_size=2,
                        **options)


def test_streams_are_compared_by_the_samples_of_their_first_steps(world: World) -> None:
    whole = [{"id": i, "x": float(i)} for i in range(80)]
    assert steps(world, lambda rank: stream(rank, whole)) == ["", ""]
    for text in steps(world, lambda rank: stream(rank, whole[rank::2], name="split")):
        assert "ranks read different streams" in text
        assert "epoch 0, sample 0" in text
    later = [whole, [*whole[:8], *reversed(whole[8:])]]
    for text in steps(world, lambda rank: stream(rank, later[rank], name="later")):
        assert "epoch 0, sample 8" in text


def test_random_transforms_of_a_stream_need_an_identity(world: World) -> None:
    import random

    def make(rank: int, **options: Any) -> Any:
        samples = [{"id": i, "x": random.random()} for i in range(80)]
        return stream(rank, samples, **options)

    assert all(steps(world, lambda rank: make(rank, name="a")))
    by_id = {"identity": lambda sample: sample["id"], "name": "b"}
    assert steps(world, lambda rank: make(rank, **by_id)) == ["", ""]


def test_a_stream_that_begins_otherwise_after_a_restart_is_refused() -> None:
    before = StreamLoader(Stream(list(range(50))), global_batch=8)
    iterator = iter(before)
    next(iterator), next(iterator)
    state = before.state_dict()
    again = StreamLoader(Stream(list(range(50))), global_batch=16)
    again.load_state_dict(state)
    assert next(iter(again)) == list(range(16, 32)), "also in steps of another size"
    other = StreamLoader(Stream([1, 0, *range(2, 50)]), global_batch=8)
    other.load_state_dict(state)
    with pytest.raises(DataError, match="the first 8 samples of epoch 0 differ"):
        next(iter(other))


def test_ranks_that_one_process_tries_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_channel", None)
    both = [loader(rank, sampler=Own(None), name="tried") for rank in (0, 1)]
    next(iter(both[0]))
    with pytest.raises(DataError, match="rank 0 and rank 1"):
        next(iter(both[1]))
    again = [loader(rank, sampler=Own(3), name="tried") for rank in (0, 1)]
    assert sorted(i for one in again for batch in one for i in batch) == list(range(40))


# ---- the master's way ----

_HEAD = struct.Struct("<IHHIIQQQQ")


class Agent:
    """The socket of an agent, whose frames a test reads and answers."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.peer: socket.socket | None = None

    def heard(self) -> list[tuple[Any, ...]]:
        if self.peer is None:
            self.peer, _ = self.listener.accept()
            self.peer.settimeout(5)
        content = self.peer.recv(1 << 16)
        found: list[tuple[Any, ...]] = []
        while content:
            head = _HEAD.unpack_from(content)
            found.append((*head, content[_HEAD.size : head[0]].decode()))
            content = content[head[0] :]
        return found

    def tell(self, op: int, text: str = "", *, place: int = 0, ranks: Any = (0, 0)) -> None:
        assert self.peer is not None
        size = _HEAD.size + len(text)
        self.peer.sendall(_HEAD.pack(size, op, 0, 0, 0, place, 0, *ranks) + text.encode())

    def hang_up(self) -> None:
        assert self.peer is not None
        self.peer.close()
        self.peer = None


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(progress, "rank", lambda: 3)
    monkeypatch.setattr(progress, "generation", lambda: 9)
    monkeypatch.setattr(agreement, "_REDIAL_SECONDS", 0.0)
    monkeypatch.setenv("PACELINE_LEASE_SOCKET", str(tmp_path / "agent"))
    monkeypatch.setattr(agreement, "_channel", None)
    return Agent(tmp_path / "agent")


def test_reports_go_to_the_agent_and_a_difference_comes_back(agent: Agent) -> None:
    one = Agreement("loader", name=f"of {os.getpid()}", about="", rank=1, world_size=4)
    one.say(7, "00000000000000ff")
    ((size, op, _, _, _, generation, digest, rank, place, text),) = agent.heard()
    assert (size, op, generation, digest, rank, place) == (48 + len(text), 10, 9, 255, 3, 7)
    assert text == f"loader of {os.getpid()} 0"
    one.look()
    agent.tell(43, "another loader", place=7)
    one.look()
    agent.tell(43, text, place=7, ranks=(3, 1))
    with pytest.raises(Differs) as caught:
        one.look()
    assert (caught.value.place, caught.value.ranks) == (7, (3, 1))


def test_a_new_master_and_a_new_agent_hear_all_again(agent: Agent) -> None:
    channel = MasterChannel(os.environ["PACELINE_LEASE_SOCKET"])
    channel.say("a", 0, 1, 3)
    channel.say("a", 1, 2, 3)
    assert len(agent.heard()) == 2
    agent.tell(65)
    channel.look("a")
    assert [frame[8] for frame in agent.heard()] == [0, 1]
    agent.hang_up()
    channel.look("a")
    channel.look("a")
    assert [frame[8] for frame in agent.heard()] == [0, 1]


def test_an_agent_that_is_away_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "_REDIAL_SECONDS", 0.0)
    channel = MasterChannel(str(tmp_path / "late"))
    channel.say("a", 0, 1, 3)
    channel.look("a")
    agent = Agent(tmp_path / "late")
    channel.look("a")
    assert [frame[8] for frame in agent.heard()] == [0], "it hears later what was said"
