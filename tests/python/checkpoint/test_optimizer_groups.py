"""Groups of an optimizer are known by their parameters, whatever their order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError, load
from torch import nn, optim

pytestmark = pytest.mark.usefixtures("own_keeper")

RATES = (0.1, 0.001, 0.7)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(2, 2) for _ in RATES])


def adam(model: nn.Sequential, groups: list[list[int]], **more: Any) -> optim.AdamW:
    return optim.AdamW(
        [
            {"params": [p for i in its for p in model[i].parameters()], "lr": RATES[its[0]]}
            for its in groups
        ],
        **more,
    )


def stepped(model: nn.Module, optimizer: optim.Optimizer) -> None:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def rates(model: nn.Sequential, optimizer: optim.Optimizer) -> list[float]:
    """The rate of each layer."""
    found = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    return [float(found[layer.weight]) for layer in model]  # type: ignore[union-attr]


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[tuple[Path, nn.Sequential, optim.AdamW]]:
    """Three layers with a group each, at step 0."""
    model = net()
    optimizer = adam(model, [[0], [1], [2]])
    stepped(model, optimizer)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"m": model, "o": optimizer})
    yield tmp_path / "c", model, optimizer


def is_same_state(
    one: nn.Module, its: optim.Optimizer, other: nn.Module, others: optim.Optimizer
) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(
        torch.equal(its.state[a]["exp_avg"], others.state[b]["exp_avg"]) for a, b in pairs
    )


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("order", [[[2], [0], [1]], [[1], [0], [2]]])
def test_groups_in_another_order_are_the_same_optimizer(
    saved: tuple[Path, nn.Sequential, optim.AdamW], strict: bool, order: list[list[int]]
) -> None:
    path, model, optimizer = saved
    other = net()
    again = adam(other, order)
    for group in again.param_groups:
        group["lr"] = 5.0
    loaded = load(path, {"m": other, "o": again}, strict=strict)
    assert loaded.left_out == []
    assert rates(other, again) == list(RATES)
    assert is_same_state(model, optimizer, other, again)


def test_so_are_parameters_in_another_order(
    saved: tuple[Path, nn.Sequential, optim.AdamW],
) -> None:
    path, model, optimizer = saved
    other = net()
    groups = [
        {"params": [layer.bias, layer.weight], "lr": 5.0} for layer in reversed(list(other))
    ]
    again = optim.AdamW(groups)
    assert load(path, {"m": other, "o": again}).left_out == []
    assert rates(other, again) == list(RATES)
    assert is_same_state(model, optimizer, other, again)
    stepped(other, again)


def test_a_rate_that_is_a_tensor_is_filled_where_it_is(tmp_path: Path) -> None:
    def make(order: list[int]) -> tuple[nn.Sequential, optim.AdamW]:
        model = net()
        groups = [
            {"params": model[i].parameters(), "lr": torch.tensor(RATES[i])} for i in order
        ]
        return model, optim.AdamW(groups, capturable=False, foreach=False)

    model, optimizer = make([0, 1, 2])
    stepped(model, optimizer)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"m": model, "o": optimizer})
    model, optimizer = make([1, 2, 0])
    held = [group["lr"] for group in optimizer.param_groups]
    for one in held:
        one.fill_(9)
    load(tmp_path / "c", {"m": model, "o": optimizer})
    assert rates(model, optimizer) == pytest.approx(list(RATES))
    assert all(group["lr"] is one for group, one in zip(optimizer.param_groups, held, strict=True))


def test_groups_that_differ_keep_the_options_of_the_script(
    saved: tuple[Path, nn.Sequential, optim.AdamW],
) -> None:
    path, model, optimizer = saved
    other = net()
    again = optim.AdamW(
        [
            {"params": [*other[2].parameters(), *other[0].parameters()], "lr": 4.0},
            {"params": list(other[1].parameters()), "lr": 5.0},
        ]
    )
    with pytest.raises(CheckpointError, match=r"o\.param_groups\.0 .* other groups"):
        load(path, {"m": other, "o": again})
    loaded = load(path, {"m": other, "o": again}, strict=False)
    assert rates(other, again) == [4.0, RATES[1], 4.0]
    assert len([one for one in loaded.left_out if "o.param_groups.0" in one]) == 1
    assert not any("o.param_groups.1" in one for one in loaded.left_out)
    assert is_same_state(model, optimizer, other, again)
    stepped(other, again)


def test_parameters_without_names_are_known_by_their_place(tmp_path: Path) -> None:
    model = net()
    optimizer = adam(model, [[0], [1], [2]])
    stepped(model, optimizer)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"o": optimizer})
    again = adam(net(), [[0], [1, 2]])
    with pytest.raises(CheckpointError, match=r"o\.param_groups\.1"):
        load(tmp_path / "c", {"o": again})
    again = adam(net(), [[0], [1], [2]])
    assert load(tmp_path / "c", {"o": again}).left_out == []


def test_places_count_no_more_where_names_have_moved(tmp_path: Path) -> None:
    """A parameter without a name may be another one there, so nobody's state is given to it."""
    model, loose = net(), [nn.Parameter(torch.full((2,), float(i))) for i in (1, 2)]

    def make(order: list[int]) -> optim.AdamW:
        groups = [{"params": [*model[i].parameters(), loose[i]], "lr": RATES[i]} for i in order]
        return optim.AdamW(groups)

    optimizer = make([0, 1])
    for i, one in enumerate(loose):
        one.grad = torch.full((2,), float(i + 1))
    stepped(model, optimizer)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"m": model, "o": optimizer})
    again = make([1, 0])
    with pytest.raises(CheckpointError, match="o's state of 2 "):
        load(tmp_path / "c", {"m": model, "o": again})
    load(tmp_path / "c", {"m": model, "o": again}, strict=False)
    assert all(one not in again.state for one in loose)
    assert rates_of_two(model, again) == [RATES[0], RATES[1]]


def rates_of_two(model: nn.Sequential, optimizer: optim.Optimizer) -> list[float]:
    found = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    return [found[model[i].weight] for i in (0, 1)]


def test_a_scheduler_follows_its_groups(tmp_path: Path) -> None:
    def make(order: list[int]) -> tuple[nn.Sequential, dict[str, Any]]:
        model = net()
        optimizer = adam(model, [[i] for i in order])
        first = optim.lr_scheduler.ConstantLR(optimizer, factor=1.0, total_iters=1)
        decay = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        both = optim.lr_scheduler.SequentialLR(optimizer, [first, decay], milestones=[1])
        return model, {"m": model, "o": optimizer, "s": both}

    def train(model: nn.Sequential, state: dict[str, Any], steps: int) -> None:
        for _ in range(steps):
            stepped(model, state["o"])
            state["s"].step()

    model, state = make([0, 1, 2])
    train(model, state, 3)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, state)
    train(model, state, 2)
    other, again = make([2, 0, 1])
    assert load(tmp_path / "c", again).left_out == []
    train(other, again, 2)
    assert rates(other, again["o"]) == pytest.approx(rates(model, state["o"]))


def test_state_of_another_kind_of_optimizer_stays_out(
    saved: tuple[Path, nn.Sequential, optim.AdamW],
) -> None:
    path, model, _ = saved
    other = net()
    again = optim.SGD(other.parameters(), lr=0.3, momentum=0.9)
    with pytest.raises(CheckpointError, match="another kind of optimizer"):
        load(path, {"m": other, "o": again})
    loaded = load(path, {"m": other, "o": again}, strict=False)
    assert torch.equal(other[0].weight, model[0].weight)  # type: ignore[arg-type]
    (told,) = loaded.left_out
    assert "exp_avg, exp_avg_sq" in told and "step" in told
    assert not any(again.state.values())
    assert again.param_groups[0]["lr"] == 0.3
    stepped(other, again)


def test_adam_goes_on_as_adamw(saved: tuple[Path, nn.Sequential, optim.AdamW]) -> None:
    path, model, optimizer = saved
    other = net()
    again = optim.Adam([{"params": layer.parameters()} for layer in other])
    assert load(path, {"m": other, "o": again}).left_out == []
    assert rates(other, again) == list(RATES)
    assert is_same_state(model, optimizer, other, again)


def test_what_was_no_optimizer_is_not_taken_for_one(tmp_path: Path) -> None:
    model = net()
    optimizer = adam(model, [[0], [1], [2]])
    stepped(model, optimizer)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"m": model, "o": optimizer.state_dict()})
    with pytest.raises(CheckpointError, match="o was saved, and was no optimizer then"):
        load(tmp_path / "c", {"m": model, "o": adam(model, [[0], [1], [2]])})


def test_a_group_that_the_training_added_is_to_be_added_before_the_restore(
    saved: tuple[Path, nn.Sequential, optim.AdamW],
) -> None:
    path, _model, old = saved
    model = net()
    optimizer = adam(model, [[0], [1]])
    state = {"m": model, "o": optimizer}
    with pytest.raises(CheckpointError) as error:
        load(path, state)
    told = "add the parameter group of m.2.weight, m.2.bias to o (add_param_group) before the rest"
    assert told in str(error.value)
    assert "strict=False" in str(error.value)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    load(path, state)
    assert rates(model, optimizer) == list(RATES)
    assert len(optimizer.state) == len(old.state)
