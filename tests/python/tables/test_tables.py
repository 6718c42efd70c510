"""Tables in the process of a script, beside torch's own modules and optimizers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, cast

import paceline.embedding as pe
import pytest
import torch
from paceline.errors import ArgumentError, TableError
from paceline.torch import ElasticDataset, LeasedLoader

_numbers = itertools.count()


def fresh(word: str) -> str:
    """A name that no other test has: tables live as long as the process."""
    return f"{word}{next(_numbers)}"


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def clicks(samples: int = 100, width: int = 3, keys: int = 20) -> list[tuple[Any, Any]]:
    chance = torch.Generator().manual_seed(3)
    found = torch.randint(keys, (samples, width), generator=chance)
    target = torch.rand(samples, generator=chance)
    return [(found[i], target[i]) for i in range(samples)]


def batches(data: list[Any], size: int = 8, **options: Any) -> Iterator[Any]:
    with LeasedLoader(
        ElasticDataset(data, seed=1), name=fresh("clicks"), batch_size=size, **options
    ) as loader:
        yield from loader


class Model(torch.nn.Module):
    def __init__(self, bag: torch.nn.Module, dim: int) -> None:
        super().__init__()
        self.bag = bag
        self.head = torch.nn.Linear(dim, 1)

    def forward(self, keys: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(keys, *more)).squeeze(1)


def rows_of(table: pe.Table, keys: int) -> torch.Tensor:
    return pe.Embedding(table).eval()(torch.arange(keys))


def pair(rule: Any, *, mode: Any = "sum", keys: int = 20, dim: int = 5) -> tuple[Model, Model]:
    """A model on a table, and torch's with the same values."""
    table = pe.Table(fresh("ads"), dim=dim, optimizer=rule, scale=0.5)
    ours = Model(pe.EmbeddingBag(table, mode=mode), dim)
    weight = rows_of(table, keys)
    theirs = Model(
        torch.nn.EmbeddingBag(keys, dim, mode=mode, sparse=True, _weight=weight.clone()), dim)
    theirs.head.load_state_dict(ours.head.state_dict())
    return ours, theirs


def as_offsets(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same bags in one row, of one to three keys each."""
    lengths = torch.arange(len(keys)) % keys.shape[1] + 1
    parts = [row[:length] for row, length in zip(keys, lengths, strict=True)]
    return torch.cat(parts), lengths.cumsum(0) - lengths


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("has_offsets", [False, True])
@pytest.mark.parametrize(
    ("rule", "torchs"),
    [(pe.SGD(0.3), lambda p: torch.optim.SGD(p, lr=0.3)),
     (pe.Adagrad(0.3), lambda p: torch.optim.Adagrad(p, lr=0.3)),
     (pe.Adagrad(0.1, initial=0.5),
      lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5))],
    ids=["sgd", "adagrad", "adagrad with a first sum"],
)
def test_a_table_learns_as_torchs_embedding_bag(
    mode: str, has_offsets: bool, rule: Any, torchs: Any
) -> None:
    ours, theirs = pair(rule, mode=mode)
    opt = pe.Optimizer(ours, dense=rule, name=fresh("m"))
    other = torchs(theirs.parameters())
    steps = 0
    for keys, target in batches(clicks(), epochs=3):
        inputs = as_offsets(keys) if has_offsets else (keys,)
        for model in (ours, theirs):
            torch.nn.functional.mse_loss(model(*inputs), target).backward()
        opt.step()
        other.step()
        other.zero_grad()
        steps += 1
    assert steps == 3 * math.ceil(100 / 8)
    table, weight = opt.tables[0], cast("Any", theirs.bag).weight.detach()
    torch.testing.assert_close(rows_of(table, 20), weight, rtol=0, atol=1e-6)
    for mine, torchs_own in zip(ours.parameters(), theirs.head.parameters(), strict=True):
        torch.testing.assert_close(mine, torchs_own, rtol=0, atol=1e-6)


def test_dense_parameters_of_many_chunks_follow_torchs_adam() -> None:
    ours = torch.nn.Sequential(torch.nn.Linear(70, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
    theirs = torch.nn.Sequential(torch.nn.Linear(70, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
    theirs.load_state_dict(ours.state_dict())
    opt = pe.Optimizer(ours, dense=pe.Adam(0.01), name=fresh("m"))
    other = torch.optim.Adam(theirs.parameters(), lr=0.01)
    data = [torch.randn(70) for _ in range(80)]
    for batch in batches(data, epochs=2):
        for model in (ours, theirs):
            model(batch).square().mean().backward()
        opt.step()
        other.step()
        other.zero_grad()
    for mine, torchs_own in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, torchs_own, rtol=0, atol=2e-6)


def test_an_optimizer_that_adds_one_a_sample_counts_every_sample_once() -> None:
    data = [torch.tensor([i % 5, 5 + i % 7]) for i in range(101)]
    table = pe.Table(fresh("ads"), dim=1, optimizer=pe.SGD(1.0), scale=0)
    bag = pe.EmbeddingBag(table)
    opt = pe.Optimizer(bag, name=fresh("m"))
    sizes: list[int] = []
    for keys in batches(data, size=10, epochs=3):
        (-bag(keys)).sum().backward()
        opt.step()
        sizes.append(len(keys))
    assert sizes == [*[10] * 10, 1] * 3, "the last batch of an epoch is shorter"
    for key in range(12):
        wanted = 3 * sum(key in sample.tolist() for sample in data)
        assert rows_of(table, 12)[key].item() == wanted


def test_several_lookups_of_a_table_are_one_gradient() -> None:
    table = pe.Table(fresh("ads"), dim=2, optimizer=pe.Adagrad(1.0), scale=0)
    first, second = pe.EmbeddingBag(table), pe.Embedding(table)
    model = torch.nn.ModuleList([first, second])
    opt = pe.Optimizer(model, name=fresh("m"))
    weight = torch.zeros(9, 2, requires_grad=True)
    other = torch.optim.Adagrad([weight], lr=1.0)
    for keys, _target in batches(clicks(keys=9)):
        (first(keys).sum() + second(keys[:, 0]).square().sum() - 2 * second(keys).sum()).backward()
        rows = weight[keys]
        (rows.sum() + weight[keys[:, 0]].square().sum() - 2 * rows.sum()).backward()
        opt.step()
        other.step()
        other.zero_grad()
    torch.testing.assert_close(rows_of(table, 9), weight.detach(), rtol=0, atol=1e-5)


def test_eval_admits_no_key_and_records_no_gradient() -> None:
    table = pe.Table(fresh("ads"), dim=4, optimizer=pe.SGD(0.1))
    bag = pe.EmbeddingBag(table).eval()
    before = bag(torch.tensor([[5, -9], [2**62, 0]]))
    assert before.abs().max() > 0 and not before.requires_grad
    assert table.counts()["rows"] == 0
    bag.train()
    assert torch.equal(bag(torch.tensor([[5, -9], [2**62, 0]])), before)
    assert table.counts()["rows"] == 4


def test_a_budget_closes_admission_and_known_keys_go_on_learning() -> None:
    table = pe.Table(fresh("ads"), dim=16, optimizer=pe.SGD(1.0), budget="32KiB", scale=0)
    bag = pe.EmbeddingBag(table)
    opt = pe.Optimizer(bag, name=fresh("m"))
    data = [torch.tensor([0, i]) for i in range(4_000)]
    for keys in batches(data, size=100):
        (-bag(keys)).sum().backward()
        opt.step()
    counts = table.counts()
    assert 0 < counts["rows"] < 4_000
    assert counts["refused"] > 0
    assert rows_of(table, 1)[0, 0].item() == 4_001  # the sample [0, 0] has it twice


def test_an_export_has_every_row() -> None:
    table = pe.Table(fresh("ads"), dim=3)
    keys, rows = table.export()
    assert len(keys) == len(rows) == 0
    seen = pe.Embedding(table)(torch.tensor([4, -1, 9]))
    keys, rows = table.export()
    found = dict(zip(keys.tolist(), rows.tolist(), strict=True))
    assert found == dict(zip([4, -1, 9], seen.tolist(), strict=True))


def test_what_torch_accepts_as_input() -> None:
    bag = pe.EmbeddingBag(pe.Table(fresh("ads"), dim=3), mode="mean")
    assert bag(torch.empty(0, dtype=torch.long), torch.tensor([0, 0])).tolist() == [[0] * 3] * 2
    assert bag(torch.empty(2, 0, dtype=torch.long)).shape == (2, 3)
    assert bag(torch.tensor([[1, 2]], dtype=torch.int32)).shape == (1, 3)
    assert pe.Embedding(bag.table)(torch.ones(2, 4, 5, dtype=torch.long)).shape == (2, 4, 5, 3)
    strided = torch.arange(12).reshape(3, 4).t()
    whole = bag(strided.contiguous())
    assert torch.equal(bag(strided), whole)
    for wrong in ((torch.tensor([1, 2]),), (torch.tensor([[1, 2]]), torch.tensor([0])),
                  (torch.tensor([1.0, 2.0]), torch.tensor([0])),
                  (torch.tensor([1, 2]), torch.tensor([1]))):
        with pytest.raises(ArgumentError):
            bag(*wrong)


# ---- errors ----


def test_another_form_of_a_table_is_refused() -> None:
    name = fresh("ads")
    table = pe.Table(name, dim=4, optimizer=pe.SGD(0.1))
    assert pe.Table(name, dim=4, optimizer=pe.SGD(0.2)).number == table.number
    with pytest.raises(TableError, match="dim 4, and not 8") as refused:
        pe.Table(name, dim=8, optimizer=pe.SGD(0.1))
    assert refused.value.code == "PL-E197"
    with pytest.raises(TableError, match="optimizer sgd, and not adam"):
        pe.Table(name, dim=4, optimizer=pe.Adam())


@pytest.mark.parametrize("wrong", [
    {"dim": 0}, {"optimizer": 0.1}, {"budget": "8 GB"}, {"budget": 0}, {"scale": -1}, {"seed": -1},
    {"optimizer": pe.SGD(-1.0)}, {"lr": 0.1},
])
def test_wrong_arguments_of_a_table_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        pe.Table(fresh("ads"), **{"dim": 4, **wrong})


def small() -> tuple[pe.EmbeddingBag, pe.Optimizer]:
    bag = pe.EmbeddingBag(pe.Table(fresh("ads"), dim=2, optimizer=pe.SGD(1.0)))
    return bag, pe.Optimizer(bag, name=fresh("m"))


def code_of(error: pytest.ExceptionInfo[TableError]) -> str:
    assert all((error.value.what, error.value.where, error.value.why, error.value.fix))
    return error.value.code


def test_a_step_needs_a_leased_batch_and_is_one_a_batch() -> None:
    bag, opt = small()
    bag(torch.tensor([[1]])).sum().backward()
    with pytest.raises(TableError) as none:
        opt.step()
    assert code_of(none) == "PL-E195"
    opt.zero_grad()
    with LeasedLoader(
        ElasticDataset(clicks()), name=fresh("clicks"), batch_size=8
    ) as loader:
        for keys, _target in loader:
            bag(keys).sum().backward()
            opt.step()
            with pytest.raises(TableError) as twice:
                opt.step()
            assert code_of(twice) == "PL-E196"
            break
    with pytest.raises(TableError) as left:
        opt.step()
    assert code_of(left) == "PL-E195"


def test_a_loop_within_the_loop_does_not_change_the_batch() -> None:
    """As an evaluation does, which reads all of its data between the batch and its step."""
    bag, opt = small()
    before = rows_of(bag.table, 20)
    for keys, _target in batches(clicks(16), size=16):
        bag(keys).sum().backward()
        assert len(list(batches(clicks(16)))) == 2
        opt.step()
        seen = torch.bincount(keys.flatten(), minlength=20).unsqueeze(1)
        torch.testing.assert_close(rows_of(bag.table, 20), before - seen)


def test_gradients_of_an_earlier_batch_are_refused() -> None:
    bag, opt = small()
    loop = batches(clicks())
    bag(next(loop)[0]).sum().backward()
    bag(next(loop)[0]).sum().backward()
    with pytest.raises(TableError) as mixed:
        opt.step()
    assert code_of(mixed) == "PL-E199"
    opt.zero_grad()
    bag(next(loop)[0]).sum().backward()
    opt.step()


def test_a_loss_of_an_earlier_batch_is_refused_in_its_backward() -> None:
    bag, opt = small()
    loop = batches(clicks())
    earlier = bag(next(loop)[0]).sum()
    loss = earlier + bag(next(loop)[0]).sum()
    with pytest.raises(TableError) as mixed:
        loss.backward()
    assert code_of(mixed) == "PL-E199"
    opt.zero_grad()
    bag(next(loop)[0]).sum().backward()
    opt.step()


def test_a_nan_is_refused_and_changes_nothing() -> None:
    bag, opt = small()
    for keys, _target in batches(clicks(16, keys=9)):
        before = rows_of(bag.table, 9)
        (bag(keys) * torch.tensor([1.0, math.nan])).sum().backward()
        with pytest.raises(TableError) as bad:
            opt.step()
        assert code_of(bad) == "PL-E198"
        assert bag.table.name in bad.value.why and "key" in bad.value.why
        assert torch.equal(rows_of(bag.table, 9), before)
        opt.zero_grad()


def test_a_loader_that_divides_batches_is_refused() -> None:
    bag, opt = small()
    loop = batches(clicks(), resume="checkpoint")
    bag(next(loop)[0]).sum().backward()
    with pytest.raises(TableError, match="resume=") as follows:
        opt.step()
    assert code_of(follows) == "PL-E200"
    opt.zero_grad()


def test_two_optimizers_do_not_share_a_name() -> None:
    name = fresh("m")
    pe.Optimizer(torch.nn.Linear(2, 2), name=name)
    with pytest.raises(ArgumentError, match="name="):
        pe.Optimizer(torch.nn.Linear(2, 2), name=name)
    with pytest.raises(ArgumentError, match="float32"):
        pe.Optimizer(torch.nn.Linear(2, 2).double(), name=fresh("m"))
