"""Each kind of state goes through a checkpoint and comes back as torch.save brings it back.

Save, make fresh objects, restore, compare: `torch.save` and `torch.load` do the same beside it.
"""

import copy
import io
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline.integrations.convert import main
from paceline.torch import Checkpointer, load
from torch import nn, optim
from torch.distributed import checkpoint as dcp

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]

State = dict[str, Any]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def stepped(make: Callable[[nn.Module], optim.Optimizer]) -> State:
    model = net()
    return {"model": model, "optimizer": make(model)}


def train(state: State, steps: int = 2) -> None:
    model, optimizer = state["model"], state["optimizer"]
    for number in range(steps):
        inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(number))

        def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(inputs.to(next(model.parameters()).dtype)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def differences(one: Any, other: Any, where: str = "state") -> list[str]:
    """Where two states differ: types, shapes, every bit."""
    if type(one) is not type(other):
        return [f"{where}: {type(one)} and {type(other)}"]
    if hasattr(one, "state_dict"):
        return differences(one.state_dict(), other.state_dict(), where)
    if isinstance(one, torch.Tensor):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return [f"{where}: {one.dtype} {one.shape} and {other.dtype} {other.shape}"]
        packed = [t.detach().resolve_conj().contiguous().view(-1) for t in (one, other)]
        equal = torch.equal(*(t.view(torch.uint8) for t in packed))
        return [] if equal else [f"{where}: {one} and {other}"]
    if isinstance(one, dict):
        order = list if isinstance(one, OrderedDict) else set
        if order(one) != order(other):
            return [f"{where}: {list(one)} and {list(other)}"]
        return [d for key in one for d in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}.{i}")]
    return [] if one == other or (one != one and other != other) else [f"{where}: {one}, {other}"]


class Odd(optim.SGD):
    """State of no parameter, under names that are no plain texts, and in containers."""

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        self.state["rounds"] = self.state.get("rounds", 0) + 1  # pyright: ignore
        for group in self.param_groups:
            for p in group["params"]:
                mine = self.state[p]
                mine["a.b"], mine[7] = torch.ones_like(p), torch.zeros(2)
                mine["nested"] = {"deep": [torch.full((3,), 2.0, dtype=torch.float64), "text"]}
        return loss


def bf16(model: nn.Module) -> optim.Optimizer:
    return optim.LBFGS(model.bfloat16().parameters(), lr=0.1, max_iter=3)


OPTIMIZERS: dict[str, Callable[[nn.Module], optim.Optimizer]] = {
    "tensor lr": lambda m: optim.Adam(m.parameters(), lr=torch.tensor(0.01)),
    "capturable": lambda m: optim.AdamW(m.parameters(), lr=torch.tensor(0.01), foreach=False),
    "tensors in groups": lambda m: optim.SGD(
        [{"params": [p], "scale": torch.arange(3), "bounds": (torch.ones(1), 2)}
         for p in m.parameters()], lr=0.1, momentum=0.9
    ),
    "lbfgs": lambda m: optim.LBFGS(m.parameters(), lr=0.1, max_iter=3),
    "lbfgs with a line search": lambda m: optim.LBFGS(
        m.parameters(), lr=0.1, max_iter=5, line_search_fn="strong_wolfe"
    ),
    "lbfgs in bfloat16": bf16,
    "odd": lambda m: Odd(m.parameters(), lr=0.1, momentum=0.9),
}  # fmt: skip


def saved(state: State, place: Path) -> None:
    with Checkpointer(place) as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)


@pytest.mark.parametrize("way", ["restore", "load"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_as_with_torch_save(kind: str, way: str, tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS[kind])
    train(state)
    saved(state, tmp_path / "c")
    text = io.BytesIO()
    torch.save({key: value.state_dict() for key, value in state.items()}, text)
    fresh, twin = stepped(OPTIMIZERS[kind]), stepped(OPTIMIZERS[kind])
    if way == "restore":
        assert Checkpointer(tmp_path / "c").restore(fresh) == 1
    else:
        assert load(tmp_path / "c", fresh).left_out == []
    text.seek(0)
    for key, value in torch.load(text).items():
        twin[key].load_state_dict(value)
    assert differences(state, fresh) == []
    train(state)
    train(fresh)
    train(twin)
    assert differences(state, fresh) == []
    if "bfloat16" not in kind:  # torch's load_state_dict gives nested state another type
        assert differences(twin["model"], fresh["model"]) == []


@pytest.mark.parametrize("kind", ["tensor lr", "lbfgs"])
def test_an_optimizer_with_tensors_is_exported(kind: str, tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS[kind])
    train(state)
    saved(state, tmp_path / "c")
    assert main(["export", str(tmp_path / "c"), str(tmp_path / "out")]) == 0
    state_dict = dcp.filesystem.FileSystemReader(str(tmp_path / "out")).read_metadata()
    names = set(state_dict.state_dict_metadata)
    assert "optimizer.param_groups.0.lr" in names or "optimizer.param_groups" in str(names)
    assert main(["import", str(tmp_path / "out"), str(tmp_path / "in")]) == 0
    fresh = stepped(OPTIMIZERS[kind])
    load(tmp_path / "in", fresh)
    train(state)
    train(fresh)
    assert differences(state["model"], fresh["model"]) == []


class Counted:
    """Counts how often it is asked for its state, and is given one."""

    def __init__(self) -> None:
        self.loads = self.asked = 0
        self.tensor = torch.ones(2)

    def state_dict(self) -> State:
        self.asked += 1
        return {"x": self.tensor}

    def load_state_dict(self, _state: State) -> None:
        self.loads += 1


def test_the_first_save_is_rehearsed_and_touches_nothing(tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS["lbfgs"]) | {"own": Counted(), "loose": {"x": torch.rand(3)}}
    train(state)
    before = copy.deepcopy({k: v for k, v in state.items() if k != "own"})
    numbers = torch.get_rng_state()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, state)
        assert state["own"].asked == 1 and state["own"].loads == 0
        ckpt.save(1, state)
        assert state["own"].asked == 2
    assert torch.equal(numbers, torch.get_rng_state())
    for key, value in before.items():
        assert differences(value, state[key]) == []
