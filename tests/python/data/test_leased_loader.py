"""Leased data in one process, whose ledger is its own; tests/e2e has many processes and faults."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.data import (
    ArgumentError,
    DataError,
    ElasticDataset,
    ElasticMixture,
    LeasedLoader,
    shards,
)


class Broken:
    """Reading record 7 fails."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> int:
        if index == 7:
            raise ValueError("record 7 is broken")
        return index


@pytest.fixture
def loaders() -> Iterator[Any]:
    made: list[LeasedLoader] = []

    def make(data: Any, **options: Any) -> LeasedLoader:
        made.append(LeasedLoader(data, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_every_sample_once_an_epoch_in_the_order_of_the_epochs() -> None:
    with shards(range(100), name="a", epochs=3, seed=7) as loader:
        seen = list(loader)
    expected = ElasticDataset(range(100), seed=7)
    assert seen == [i for epoch in range(3) for i in expected.indices(epoch, 0, 100)]


def test_batches_over_leases_and_epochs_lose_nothing(loaders: Any) -> None:
    data = ElasticDataset(range(50), seed=1)
    batches = list(loaders(data, batch=8, epochs=2, lease=5))
    assert Counter(i for batch in batches for i in batch) == dict.fromkeys(range(50), 2)
    assert all(1 <= len(batch) <= 8 for batch in batches)


def test_what_a_loop_did_not_come_back_for_comes_again(loaders: Any) -> None:
    loader = loaders(ElasticDataset(range(20), shuffle=False))
    for sample in loader:
        if sample == 4:
            break
    assert list(loader) == list(range(4, 20)), "4 was not done"


def test_done_counts_before_the_loop_comes_back(loaders: Any) -> None:
    loader = loaders(ElasticDataset(range(20), shuffle=False))
    for sample in loader:
        if sample == 4:
            loader.done()
            break
    assert list(loader) == list(range(5, 20))


def test_a_mixture_is_leased_as_any_data(loaders: Any) -> None:
    data = ElasticMixture({"a": range(10), "b": range(5)}, weights={"a": 2, "b": 1}, seed=3)
    assert len(list(loaders(data))) == data.samples


def test_a_bad_sample_costs_that_sample(loaders: Any, caplog: Any) -> None:
    loader = loaders(ElasticDataset(Broken(), seed=3), bad_samples="skip", lease=10)
    with caplog.at_level(logging.WARNING, "paceline"):
        seen = sorted(loader)
    assert seen == [i for i in range(50) if i != 7]
    assert loader.quarantined == [(0, 7)]
    assert "complete except 1 in quarantine: 7 (epoch 0)" in caplog.text


class BrokenAt(Broken):
    """Reading these records fails."""

    def __init__(self, count: int, *bad: int) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if index in self.bad:
            raise ValueError(f"record {index} is broken")
        return index


@pytest.mark.parametrize("bad", [0, 9])
@pytest.mark.parametrize("lease", [3, 6, 20])
def test_a_bad_sample_at_an_epochs_end_repeats_nothing(loaders: Any, bad: int, lease: int) -> None:
    """The batch has pieces of both epochs, of one lease or of two."""
    data = ElasticDataset(BrokenAt(10, bad), shuffle=False)
    loader = loaders(data, bad_samples="skip", epochs=3, batch=4, lease=lease)
    seen = Counter(sample for batch in loader for sample in batch)
    assert seen == {i: 3 for i in range(10) if i != bad}
    assert loader.quarantined == [(epoch, bad) for epoch in range(3)]
    assert loader.lost == 0


def test_a_bad_sample_that_is_raised_repeats_nothing_either(loaders: Any) -> None:
    data = BrokenAt(10, 9)
    loader = loaders(ElasticDataset(data, shuffle=False), epochs=2, batch=4, lease=20)
    seen: list[int] = []
    with pytest.raises(ValueError, match="record 9"):
        for batch in loader:
            seen += batch
    data.bad = ()
    seen += [sample for batch in loader for sample in batch]
    assert Counter(seen) == dict.fromkeys(range(10), 2)


def test_a_bad_sample_reaches_the_loop_unless_it_is_skipped(loaders: Any) -> None:
    loader = loaders(ElasticDataset(Broken(), shuffle=False))
    with pytest.raises(ValueError, match="record 7 is broken") as raised:
        list(loader)
    assert raised.value.__notes__ == ["while sample 7 of the data set data was read"]


def test_a_position_is_saved_and_rewound_to(loaders: Any) -> None:
    data = ElasticDataset(range(100), seed=5)
    first = loaders(data, resume="checkpoint", epochs=2)
    saved: Any = None
    before: list[int] = []
    for step, sample in enumerate(first):
        before.append(sample)
        if step == 129:
            first.mark(step)
            saved = first.state_dict()
        if step == 150:
            break
    first.load_state_dict(saved)
    again = list(first)
    assert sorted(before[:130] + again) == sorted([*range(100)] * 2)
    first.close()
    other = loaders(data, resume="checkpoint", epochs=2)
    other.load_state_dict(saved)
    assert list(other) == again


def test_a_restore_in_the_loop_forgets_what_was_read(loaders: Any) -> None:
    loader = loaders(ElasticDataset(range(30), shuffle=False), resume="checkpoint")
    seen: list[int] = []
    saved: Any = None
    for sample in loader:
        seen.append(sample)
        if sample == 10 and saved is None:
            loader.mark(0)
            saved = loader.state_dict()
        if sample == 20 and seen.count(20) == 1:
            loader.load_state_dict(saved)
    assert seen == [*range(21), *range(11, 30)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epochs": 0}, "epochs=0 is not allowed"),
        ({"batch": 0}, "batch=0 is not allowed"),
        ({"lease": 0}, "lease=0 is not allowed"),
        ({"deadline": 0}, "deadline=0 is not allowed"),
        ({"name": ""}, "name='' is not allowed"),
        ({"resume": "maybe"}, "resume='maybe' is not allowed"),
        ({"bad_samples": "hide"}, "bad_samples='hide' is not allowed"),
    ],
)
def test_bad_arguments_are_named(options: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        LeasedLoader(ElasticDataset(range(10)), **options)


def test_another_order_of_a_sampler_after_a_restart_is_refused() -> None:
    class Unseeded:
        def __init__(self) -> None:
            self.chance = random.Random()

        def __len__(self) -> int:
            return 60

        def __iter__(self) -> Iterator[int]:
            return iter(self.chance.sample(range(60), 60))

    def make() -> LeasedLoader:
        return LeasedLoader(ElasticDataset(range(60), sampler=Unseeded()), resume="checkpoint")

    with make() as first:
        for number, _ in enumerate(first):
            if number == 5:
                break
        first.mark(1)
        state = first.state_dict()
    with make() as second, pytest.raises(DataError, match="another order than before"):
        second.load_state_dict(state)


def test_samples_that_ranks_cannot_share_are_told_before_training(monkeypatch: Any) -> None:
    from paceline._rank import progress

    monkeypatch.setattr(progress, "world_size", lambda: 3)
    data = ElasticDataset(range(50))
    with pytest.raises(DataError, match="2 of them are left for 3 ranks") as caught:
        LeasedLoader(data, epochs=1, resume="checkpoint", drop_last=False)
    assert "uneven=True" in caught.value.fix
    for options in ({"drop_last": True}, {"uneven": True, "drop_last": False}, {"epochs": 3}):
        LeasedLoader(data, **{"resume": "checkpoint", "drop_last": False, **options})
    LeasedLoader(data, drop_last=False)


def test_batches_of_even_shares_are_whole_also_after_a_bad_sample(loaders: Any) -> None:
    """So that each rank has as many of them."""
    data = ElasticDataset(BrokenAt(50, 7), seed=3)
    loader = loaders(data, resume="checkpoint", bad_samples="skip", epochs=2, batch=8, lease=5)
    sizes = [len(batch) for batch in loader]
    assert sizes == [8] * 12 + [2], "98 that can be read"


def test_positions_need_a_loader_that_follows_checkpoints(loaders: Any) -> None:
    with pytest.raises(DataError, match="is not saved in checkpoints"):
        loaders(ElasticDataset(range(10))).state_dict()
    follows = loaders(ElasticDataset(range(10)), resume="checkpoint")
    with pytest.raises(DataError, match="is not a position of a leased data set"):
        follows.load_state_dict({"schema": "other"})


def test_two_loaders_of_one_name_are_refused(loaders: Any) -> None:
    first, second = (loaders(ElasticDataset(range(10)), name="same") for _ in range(2))
    next(iter(first))
    with pytest.raises(DataError, match="two loaders of one process"):
        next(iter(second))


def test_a_generation_of_a_later_master_opens_and_rises(loaders: Any, monkeypatch: Any) -> None:
    """A platform's master has a term, which is in the generation above the world's number."""
    from paceline._data import lease_holder
    from paceline._rank import progress

    opened: list[int] = []

    def connect(_socket: str, _ahead: int, work: Any) -> Any:
        opened.append(work.incarnation)
        raise RuntimeError("not today")

    monkeypatch.setattr(lease_holder, "LeaseReader", type("Reader", (), {"open": connect}))
    loader = loaders(ElasticDataset(range(10)))
    for term, world in ((0, 1), (1, 2), (0xFFFF, 3)):
        monkeypatch.setattr(progress, "generation", lambda now=term << 32 | world: now)
        with pytest.raises(RuntimeError, match="not today"):  # also after a try that failed
            next(iter(loader))
    assert [incarnation >> 42 for incarnation in opened] == [1, 2, 3]


def test_ranks_of_torchrun_look_for_their_ledger_before_a_restore(
    loaders: Any, monkeypatch: Any
) -> None:
    """And each start of them has a generation of its own, so that it may rewind."""
    from paceline._base import launch
    from paceline._checkpoint import private_keeper
    from paceline._data import lease_holder
    from paceline._rank import progress

    opened: list[int] = []

    def keep(_name: str) -> str:
        launch.keep_leases("/nowhere/leases", "/nowhere")
        return "/nowhere/leases"

    def connect(_path: str, _ahead: int, work: Any) -> Any:
        opened.append(work.generation)
        raise DataError(what="connected", where="", why="", fix="")

    data = ElasticDataset(range(10))
    with loaders(data, resume="checkpoint", name="saved") as alone:
        next(iter(alone))
        alone.mark(1)
        state = {**alone.state_dict(), "run": "/nowhere"}
    monkeypatch.setattr(private_keeper, "find_leases", keep)
    monkeypatch.setattr(launch, "_kept", None)
    monkeypatch.setattr(progress, "world_size", lambda: 2)
    monkeypatch.setattr(lease_holder, "LeaseReader", type("Reader", (), {"open": connect}))
    for start in (0, 1, 2):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(start))
        with pytest.raises(DataError, match="connected"):
            loaders(data, resume="checkpoint", name=f"start {start}").load_state_dict(state)
    assert opened == [0, 1, 2]


def test_ranks_without_a_launcher_are_told(loaders: Any, monkeypatch: Any) -> None:
    from paceline._rank import progress

    monkeypatch.setenv("WORLD_SIZE", "2")
    progress.restart()
    try:
        with pytest.raises(DataError, match="several hosts can share a data set only under"):
            next(iter(loaders(ElasticDataset(range(10)))))
    finally:
        monkeypatch.delenv("WORLD_SIZE")
        progress.restart()


@pytest.mark.parametrize("workers", [0, 2])
def test_dataloader_workers_read_what_the_rank_leases(workers: int) -> None:
    torch = pytest.importorskip("torch")
    from paceline.torch import LeasedLoader as TorchLoader

    loader = TorchLoader(ElasticDataset(range(1000), seed=3), name="torch", batch_size=16,
                         num_workers=workers, persistent_workers=workers > 0)
    seen = [int(i) for batch in loader for i in batch]
    assert Counter(seen) == dict.fromkeys(range(1000), 1)
    assert isinstance(torch.tensor(seen), torch.Tensor)
    loader.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_sample_in_a_worker_costs_that_sample(workers: int) -> None:
    pytest.importorskip("torch")
    from paceline.torch import LeasedLoader as TorchLoader

    loader = TorchLoader(ElasticDataset(Broken(), seed=3), name="bad", batch_size=8, lease=20,
                         num_workers=workers, bad_samples="skip")
    seen = [int(i) for batch in loader for i in batch]
    assert Counter(seen) == {i: 1 for i in range(50) if i != 7}
    assert loader.quarantined == [(0, 7)]
    loader.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("lease", [5, 6, 24])
def test_a_bad_sample_in_a_batch_of_two_leases_loses_nothing(workers: int, lease: int) -> None:
    """What is left of the batch comes before what was read ahead: acks of a lease say "below"."""
    pytest.importorskip("torch")
    from paceline.torch import LeasedLoader as TorchLoader

    loader = TorchLoader(ElasticDataset(BrokenAt(12, 5, 11), shuffle=False), name="two", epochs=2,
                         batch_size=4, lease=lease, num_workers=workers, bad_samples="skip")
    with loader:
        seen = Counter(int(i) for batch in loader for i in batch)
        assert seen == {i: 2 for i in range(12) if i not in (5, 11)}
        assert loader.lost == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloaders_batches_of_even_shares_are_whole(workers: int) -> None:
    pytest.importorskip("torch")
    from paceline.torch import LeasedLoader as TorchLoader

    data = ElasticDataset(BrokenAt(50, 7), seed=3)
    loader = TorchLoader(data, name="even", resume="checkpoint", batch_size=8, epochs=2, lease=5,
                         num_workers=workers, bad_samples="skip")
    with loader:
        batches = [batch.tolist() for batch in loader]
    assert [len(batch) for batch in batches] == [8] * 12 + [2]
    seen = Counter(sample for batch in batches for sample in batch)
    assert seen == {i: 2 for i in range(50) if i != 7}


def test_a_broken_loop_over_a_dataloader_reads_the_rest_again() -> None:
    pytest.importorskip("torch")
    from paceline.torch import LeasedLoader as TorchLoader

    loader = TorchLoader(ElasticDataset(range(100), shuffle=False), name="broken", batch_size=10,
                         num_workers=2)
    for batch in loader:
        if int(batch[0]) >= 30:
            break
    seen = [int(i) for batch in loader for i in batch]
    assert seen == list(range(30, 100)), "in order: an ack counts everything below it in its lease"
    assert loader.lost == 0
    loader.close()
