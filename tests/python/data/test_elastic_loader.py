"""ElasticLoader over torch's DataLoader: workers, state, wrapping, and sums in a fixed order."""

import json
import random
from pathlib import Path

import numpy
import pytest
import torch
from paceline.torch import (
    ArgumentError,
    DataError,
    ElasticDataset,
    ElasticLoader,
    ElasticMixture,
    weigh_by_samples,
)
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler
from warm_process import Warm, warm_fixture

warm = warm_fixture("torch._dynamo", "torch.distributed", "paceline.torch")


class Squares(Dataset):
    def __init__(self, count: int = 103) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.tensor(float(index * index))


class Chancy(Squares):
    """Draws in each sample, as augmentations do, from all three generators."""

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        drawn = [random.random(), float(numpy.random.rand()), float(torch.rand(()))]
        return index, torch.tensor(drawn)


def taken(loader: ElasticLoader, batches: int | None = None) -> list[torch.Tensor]:
    found = []
    for number, (index, value) in enumerate(loader, 1):
        found.append(torch.cat([index.float().reshape(-1), value.float().reshape(-1)]))
        assert loader.indices == index.tolist()
        if number == batches:
            break
    return found


def test_a_reader_that_counts_batches_gets_each_epoch() -> None:
    """Lightning reads `len(loader)` batches and does not ask for the end of the epoch."""
    loader = ElasticLoader(ElasticDataset(Squares(32), shuffle=True, seed=7), global_batch=8)
    for epoch in range(3):
        batches = iter(loader)
        found = [int(index) for _ in range(len(loader)) for index in next(batches)[0]]
        assert sorted(found) == list(range(32)), epoch
    # A restored loop over `range(loader.epoch, epochs)` reads the rest of its epoch: nothing.
    again = ElasticLoader(ElasticDataset(Squares(32), shuffle=True, seed=7), global_batch=8)
    again.load_state_dict(loader.state_dict())
    assert (again.epoch, len(list(again)), again.epoch, len(list(again))) == (2, 0, 3, 4)


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("options", [
    {"num_workers": 0},
    {"num_workers": 1},
    {"num_workers": 3, "prefetch_factor": 5},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 2, "multiprocessing_context": "spawn"},
])
def test_workers_change_nothing_and_what_was_read_ahead_does_not_count(options) -> None:
    data = ElasticDataset(Squares(), seed=7)
    plain = ElasticLoader(data, global_batch=16)
    epochs = [taken(plain), taken(plain)]
    loader = ElasticLoader(data, global_batch=16, **options)
    assert equal(taken(loader, 3), epochs[0][:3])
    state = loader.state_dict()
    assert state["consumed"] == 48
    assert equal(taken(loader), epochs[0][3:])
    assert equal(taken(loader), epochs[1])
    again = ElasticLoader(data, global_batch=16, **options)
    again.load_state_dict(state)
    assert equal(taken(again), epochs[0][3:])
    assert equal(taken(again), epochs[1])


def test_what_workers_draw_follows_from_the_batch_and_not_from_the_worker() -> None:
    data = ElasticDataset(Chancy(), seed=7)
    whole = taken(ElasticLoader(data, global_batch=16, num_workers=2))
    first = ElasticLoader(data, global_batch=16, num_workers=3)
    parts = taken(first, 2)
    again = ElasticLoader(data, global_batch=16, num_workers=1)
    again.load_state_dict(first.state_dict())
    assert equal(parts + taken(again), whole)
    assert not equal(taken(again), whole), "the next epoch draws other numbers"


def test_the_random_numbers_of_the_script_are_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    loader = ElasticLoader(ElasticDataset(Squares(), seed=1), global_batch=16, num_workers=1)
    loader.state_dict()
    taken(loader)
    assert torch.equal(torch.get_rng_state(), before)


def test_collate_and_whole_batches_at_once() -> None:
    class Several(Squares):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [-i for i in indices]

    loader = ElasticLoader(ElasticDataset(Several(), shuffle=False), global_batch=50,
                           collate_fn=sum, num_workers=1)
    assert list(loader) == [-sum(range(50)), -sum(range(50, 100)), -(100 + 101 + 102)]


def test_a_sample_that_raises_is_named() -> None:
    class Poisoned(Squares):
        def __getitem__(self, index: int):
            if index == 7:
                raise OSError("a broken file")
            return super().__getitem__(index)

    for workers in (0, 1):
        loader = ElasticLoader(ElasticDataset(Poisoned(), shuffle=False, fingerprint=False),
                               global_batch=5, num_workers=workers)
        with pytest.raises(OSError, match="a broken file") as caught:
            taken(loader)
        told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
        assert "while sample 7 was read" in told
        assert loader.consumed == 5


def test_worker_init_sees_the_data_set() -> None:
    loader = ElasticLoader(ElasticDataset(Squares(), seed=1), global_batch=20, num_workers=1,
                           worker_init_fn=_look)
    assert len(taken(loader)) == 6


def _look(_number: int) -> None:
    info = torch.utils.data.get_worker_info()
    assert info is not None and info.dataset.count == 103


def test_mixtures_go_to_workers() -> None:
    sets = {"a": Squares(30), "b": Squares(10)}
    data = ElasticMixture(sets, weights={"a": 3, "b": 1}, seed=2)
    plain = taken_values(ElasticLoader(data, global_batch=8))
    assert taken_values(ElasticLoader(data, global_batch=8, num_workers=2)) == plain
    assert [data.member(index)[0] for index in data.indices(0, 0, 40)].count("b") == 10


def taken_values(loader: ElasticLoader) -> list[list[float]]:
    return [value.tolist() for _, value in loader]


@pytest.mark.parametrize("options", [
    {"num_workers": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"timeout": -1},
])
def test_what_torch_refuses_is_refused_in_four_parts(options) -> None:
    with pytest.raises(ArgumentError, match="torch's DataLoader refuses"):
        ElasticLoader(ElasticDataset(Squares()), global_batch=4, **options)


def test_streams_are_refused() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(10))

    for make in (lambda: ElasticDataset(Stream()), lambda: ElasticLoader(Stream(), global_batch=2),
                 lambda: ElasticLoader.wrap(DataLoader(Stream(), batch_size=2), global_batch=2)):
        with pytest.raises(DataError):
            make()


def test_an_existing_data_loader_is_wrapped() -> None:
    data = TensorDataset(torch.arange(40), torch.arange(40.0) ** 2)
    in_order = DataLoader(data, batch_size=8, num_workers=1, drop_last=True)
    loader = ElasticLoader.wrap(in_order, global_batch=16)
    assert [x.tolist() for x, _ in loader] == [list(range(16)), list(range(16, 32))]
    shuffled = DataLoader(data, batch_size=8, shuffle=True)
    expected = [x.tolist() for x, _ in ElasticLoader(ElasticDataset(data, seed=5), global_batch=8)]
    loader = ElasticLoader.wrap(shuffled, global_batch=8, seed=5)
    assert [x.tolist() for x, _ in loader] == expected
    sampler = DistributedSampler(data, num_replicas=2, rank=0, shuffle=True, seed=5)
    spread = DataLoader(data, batch_size=4, sampler=sampler)
    loader = ElasticLoader.wrap(spread, global_batch=8)
    assert [x.tolist() for x, _ in loader] == expected
    weighted = DataLoader(data, sampler=WeightedRandomSampler([0.0] * 20 + [1.0] * 20, 12))
    several = [ElasticLoader.wrap(weighted, global_batch=6, rank=r, world_size=2) for r in (0, 1)]
    drawn = [x.tolist() for one in several for x, _ in one]
    assert sum(map(len, drawn)) == 12 and min(map(min, drawn)) >= 20
    assert drawn == [x.tolist() for one in several for x, _ in (one.load_state_dict(
        {**one.state_dict(), "epoch": 0}) or one)], "the same chance, again"


FIXED = """
import sys, torch, torch.distributed as dist
import paceline.torch as pl
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
inputs, wanted = torch.randn(100, 12), torch.randn(100, 3)
model = torch.nn.Sequential(torch.nn.Linear(12, 17), torch.nn.Dropout(0.3), torch.nn.ReLU(),
                            torch.nn.Linear(17, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
data = pl.ElasticDataset(torch.utils.data.TensorDataset(inputs, wanted), seed=7)
if sys.argv[2] == "fixed":
    loader = pl.ElasticLoader(data, global_batch=32, virtual_ranks=4)
    fixed = pl.FixedOrderReduction(model.parameters(), loader)
    while loader.epoch < 6:
        for x, y in loader:
            with fixed.part():
                torch.nn.functional.mse_loss(model(x), y).backward()
            if loader.ends_step:
                fixed.reduce()
                optimizer.step()
                optimizer.zero_grad()
else:
    model.eval()  # no dropout: its chance would differ
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    loader = pl.ElasticLoader(data, global_batch=32)
    while loader.epoch < 6:
        for x, y in loader:
            (loader.weight * torch.nn.functional.mse_loss(ddp(x), y)).backward()
            optimizer.step()
            optimizer.zero_grad()
if dist.get_rank() == 0:
    torch.save({k: v.clone() for k, v in model.state_dict().items()}, sys.argv[1])
dist.destroy_process_group()
"""


def trained(warm: Warm, tmp_path: Path, world: int, kind: str) -> dict[str, torch.Tensor]:
    return run_world(warm, tmp_path, world, FIXED, kind)[0]


def run_world(
    warm: Warm, tmp_path: Path, world: int, script: str, word: object
) -> tuple[dict[str, torch.Tensor], str]:
    """The weights that rank 0 saved, and what it said."""
    out = tmp_path / f"{word}-{world}.pt"
    ranks = warm.run_ranks(world, script, str(out), str(word))
    assert [one.returncode for one in ranks] == [0] * world, [one.stderr for one in ranks]
    return torch.load(out, weights_only=True), ranks[0].stdout


def test_a_fixed_order_gives_the_same_bits_at_any_world_size(warm: Warm, tmp_path: Path) -> None:
    alone = trained(warm, tmp_path, 1, "fixed")
    for world in (2, 4):
        other = trained(warm, tmp_path, world, "fixed")
        assert all(torch.equal(alone[key], other[key]) for key in alone), world


def test_without_it_the_curve_agrees_within_rounding(warm: Warm, tmp_path: Path) -> None:
    alone = trained(warm, tmp_path, 1, "ddp")
    other = trained(warm, tmp_path, 3, "ddp")  # uneven cuts: 32 and 4 samples for 3 ranks
    assert all(torch.allclose(alone[key], other[key], rtol=0, atol=1e-5) for key in alone)
    assert not all(torch.equal(alone[key], other[key]) for key in alone), "else the test is blind"


BY_SPEED = """
import json, sys, torch, torch.distributed as dist
import paceline.torch as pl
from paceline._data.cut import Clock
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
inputs, wanted = torch.randn(300, 12), torch.randn(300, 3)
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(12, 3))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
data = pl.ElasticDataset(torch.utils.data.TensorDataset(inputs, wanted), seed=7)
micro = int(sys.argv[2]) or None
loader = pl.ElasticLoader(data, global_batch=30, micro_batch=micro, num_workers=1,
                          cut=pl.CutBySpeed(every=2) if dist.get_world_size() > 1 else None)
pl.weigh_by_samples(ddp, loader, weigh=micro is None)
# A clock of its own: on a busy machine any rank may stand still for longer than a step takes.
now = 0.0
slowness = 0.024 if dist.get_rank() == 1 else 0.006
if loader.by_speed is not None:
    loader.by_speed.use_clock(Clock(mark=lambda: now))
while loader.epoch < 4:
    for x, y in loader:
        now += slowness * len(x)
        weight = loader.weight if micro else 1.0
        ddp.require_backward_grad_sync = loader.ends_step
        (weight * torch.nn.functional.mse_loss(ddp(x), y)).backward()
        if loader.ends_step:
            now += 0.0 if dist.get_rank() == 1 else 1.0  # the others have waited for the slow one
            optimizer.step()
            optimizer.zero_grad()
rows = [None] * dist.get_world_size()
dist.all_gather_object(rows, loader.shares)
if dist.get_rank() == 0:
    print(json.dumps(rows))
    torch.save({k: v.clone() for k, v in ddp.module.state_dict().items()}, sys.argv[1])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("micro", [0, 4])
def test_a_slowed_rank_gets_less_and_the_mean_stays_that_of_the_step(
    warm: Warm, tmp_path: Path, micro: int
) -> None:
    alone, _ = run_world(warm, tmp_path, 1, BY_SPEED, micro)
    weights, told = run_world(warm, tmp_path, 3, BY_SPEED, micro)
    rows = json.loads(told)
    assert rows[0] == rows[1] == rows[2]
    assert sum(rows[0]) == 30
    assert rows[0][1] < min(rows[0][0], rows[0][2]), rows
    assert all(torch.allclose(alone[k], weights[k], rtol=0, atol=1e-5) for k in alone)


def test_micro_batches_are_not_weighted_together() -> None:
    loader = ElasticLoader(ElasticDataset(Squares()), global_batch=16, micro_batch=2)
    with pytest.raises(DataError, match="weigh=False"):
        weigh_by_samples(None, loader)  # pyright: ignore[reportArgumentType]


def test_virtual_ranks_that_nobody_can_share_are_refused() -> None:
    data = ElasticDataset(Squares())
    for options in ({"virtual_ranks": 6}, {"virtual_ranks": 4, "world_size": 3, "rank": 0},
                    {"virtual_ranks": 4, "micro_batch": 2}):
        with pytest.raises(DataError, match="virtual_ranks="):
            ElasticLoader(data, global_batch=32, **options)


def test_gradients_of_several_types_are_exchanged_in_the_order_of_the_parameters() -> None:
    """A set of types is ordered by addresses, which differ by rank: ranks would exchange others."""
    import itertools

    from paceline.integrations.fixed_order import by_dtype

    kinds = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    for order in itertools.permutations(kinds):
        gradients = [torch.zeros(1, dtype=kind) for kind in (*order, order[0])]
        assert [[one.dtype for one in several] for several in by_dtype(gradients)] == [
            [order[0], order[0]], *([kind] for kind in order[1:])]
