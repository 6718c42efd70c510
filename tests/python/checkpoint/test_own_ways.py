"""Modules and optimizers that make and load their state_dict in ways of their own.

What `torch.save` of their state_dict brings back, a Checkpointer brings back, too.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError, load
from torch import nn, optim
from torch.nn.modules.module import (
    _IncompatibleKeys,  # pyright: ignore[reportPrivateUsage]
)

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning"),
]

State = dict[str, Any]


class Half(nn.Module):
    """Gives its weights in half of their type, under names without a prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def state_dict(self, *_args: Any, **_kwargs: Any) -> State:  # pyright: ignore
        return {name: value.bfloat16() for name, value in self.inner.state_dict().items()}

    def load_state_dict(self, state_dict: Any, **_kwargs: Any) -> Any:  # pyright: ignore
        return self.inner.load_state_dict(state_dict)


class Metric(nn.Module):
    """Keeps sums that are no buffers and copies them into its state_dict, as torchmetrics does."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.rand(2)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "total"] = copy.deepcopy(self.total)

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *args: Any
    ) -> None:
        self.total = state_dict.pop(prefix + "total")
        super()._load_from_state_dict(state_dict, prefix, *args)


class Derived(nn.Module):
    """Computes a value from its weights whenever these are loaded."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.weight = nn.Parameter(torch.rand(2))
        self.renew()
        if way == "hook":
            self.register_load_state_dict_post_hook(_renew)

    def renew(self) -> None:
        self.norm = self.weight.detach().norm().item()

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *args: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if self.way == "override":
            self.renew()


def _renew(module: Any, _keys: _IncompatibleKeys) -> None:
    module.renew()


def adapters() -> nn.Module:
    """A model whose state_dict is replaced on the object, as scripts for adapters do."""
    model = nn.ModuleDict({"base": nn.Linear(2, 2), "adapter": nn.Linear(2, 2)})
    whole = model.state_dict
    model.state_dict = lambda *a, **k: {  # pyright: ignore
        f"my.{name}": value.clone() for name, value in whole(*a, **k).items() if "adapter" in name
    }
    fill = model.load_state_dict
    model.load_state_dict = lambda state, **_: fill(  # pyright: ignore
        {name.removeprefix("my."): value for name, value in state.items()}, strict=False
    )
    return model


def inside(module: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), module)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "own state_dict": Half,
    "own sums": Metric,
    "own sums inside": lambda: inside(Metric()),
    "replaced on the object": adapters,
    "scripted": lambda: torch.jit.script(nn.Linear(2, 3)),
}


def states_of(module: nn.Module) -> State:
    return {name: value.clone() for name, value in module.state_dict().items()}


def saved(state: State, place: Path) -> None:
    with Checkpointer(place) as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)


@pytest.mark.parametrize("kind", MODULES)
def test_a_module_with_a_state_dict_of_its_own_comes_back(kind: str, tmp_path: Path) -> None:
    module, fresh, twin = MODULES[kind](), MODULES[kind](), MODULES[kind]()
    saved({"m": module}, tmp_path / "c")
    twin.load_state_dict(states_of(module))
    assert load(tmp_path / "c", {"m": fresh}).left_out == []
    for name, value in twin.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], value), name


@pytest.mark.parametrize("way", ["hook", "override"])
def test_what_a_module_derives_at_a_load_is_derived(way: str, tmp_path: Path) -> None:
    module, fresh = Derived(way), Derived(way)
    with torch.no_grad():
        module.weight.add_(1)
    module.renew()
    before = fresh.weight
    saved({"m": inside(module)}, tmp_path / "c")
    load(tmp_path / "c", {"m": inside(fresh)})
    assert fresh.weight is before and torch.equal(fresh.weight, module.weight)
    assert fresh.norm == module.norm


def test_a_wrapper_changes_no_name_of_a_module_with_extra_state(tmp_path: Path) -> None:
    module, fresh = Metric(), Metric()
    saved({"m": torch.compile(module, backend="eager")}, tmp_path / "c")
    load(tmp_path / "c", {"m": fresh})
    assert torch.equal(module.total, fresh.total)


class Counting(optim.SGD):
    """Saves a number of its own beside torch's state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.count = 0
        self.mean = torch.zeros(2)

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        self.mean += 1
        return super().step(closure)

    def state_dict(self) -> State:
        return {**super().state_dict(), "count": self.count, "mean": self.mean}

    def load_state_dict(self, state_dict: State) -> None:
        given = dict(state_dict)
        self.count, self.mean = given.pop("count"), given.pop("mean")
        super().load_state_dict(given)


class Around(optim.Optimizer):
    """Wraps another optimizer and keeps slow weights in a form of its own, as Lookahead does."""

    def __init__(self, inner: optim.Optimizer) -> None:
        self.inner = inner
        super().__init__([p for g in inner.param_groups for p in g["params"]], {})
        self.slow = [p.detach().clone() for g in inner.param_groups for p in g["params"]]

    def step(self, closure: Any = None) -> Any:
        loss = self.inner.step(closure)
        for slow, fast in zip(self.slow, self.param_groups[0]["params"], strict=True):
            slow.add_(fast.detach() - slow, alpha=0.5)
        return loss

    def state_dict(self) -> State:
        return {"fast": self.inner.state_dict(), "slow": list(self.slow)}

    def load_state_dict(self, state_dict: State) -> None:
        self.inner.load_state_dict(state_dict["fast"])
        self.slow = [value.clone() for value in state_dict["slow"]]


def hooked(parameters: Any) -> optim.Optimizer:
    """An optimizer whose state_dict gets more by a hook of torch's."""
    made = optim.SGD(parameters, lr=0.1, momentum=0.9)
    made.tally = 0  # pyright: ignore
    made.register_state_dict_post_hook(
        lambda one, state: {**state, "tally": one.tally}  # pyright: ignore
    )
    made.register_load_state_dict_pre_hook(
        lambda one, state: setattr(one, "tally", state["tally"])
    )
    return made


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "more beside": lambda p: Counting(p, lr=0.1, momentum=0.9),
    "another form": lambda p: Around(optim.SGD(p, lr=0.1, momentum=0.9)),
    "a hook": hooked,
}


def started(kind: str) -> State:
    model = nn.Linear(4, 4)
    return {"model": model, "optimizer": OPTIMIZERS[kind](list(model.parameters()))}


def train(state: State, steps: int = 3) -> None:
    for number in range(steps):
        inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(number))
        state["optimizer"].zero_grad()
        state["model"](inputs).square().mean().backward()
        state["optimizer"].step()
        if hasattr(state["optimizer"], "tally"):
            state["optimizer"].tally += 1


def own(optimizer: Any) -> object:
    parts = [getattr(optimizer, name, None) for name in ("count", "mean", "slow", "tally")]
    return [str(part) for part in parts]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_with_a_state_dict_of_its_own_goes_on(kind: str, tmp_path: Path) -> None:
    state, fresh = started(kind), started(kind)
    train(state)
    saved(state, tmp_path / "c")
    assert load(tmp_path / "c", fresh).left_out == []
    assert own(state["optimizer"]) == own(fresh["optimizer"])
    train(state)
    train(fresh)
    assert own(state["optimizer"]) == own(fresh["optimizer"])
    assert torch.equal(state["model"].weight, fresh["model"].weight)


class Scattered(optim.SGD):
    """Refuses to give its state, as ZeroRedundancyOptimizer does before it is gathered."""

    def state_dict(self) -> State:
        raise RuntimeError("call consolidate_state_dict first")


def test_an_optimizer_that_gives_no_state_is_named(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    state = {"model": model, "zero": Scattered(model.parameters(), lr=0.1)}
    with pytest.raises(CheckpointError, match="consolidate_state_dict") as caught:
        Checkpointer(tmp_path / "c").save(0, state)
    assert "zero" in str(caught.value) and ".optim" in caught.value.fix


class Wide(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


class Picky(optim.SGD):
    def load_state_dict(self, state_dict: State) -> None:
        raise KeyError("nesterov")


def test_code_that_fails_to_load_is_named(tmp_path: Path) -> None:
    saved({"m": Metric()}, tmp_path / "c")
    with pytest.raises(CheckpointError, match="m did not load") as caught:
        load(tmp_path / "c", {"m": Wide()})
    assert "layer.weight" in caught.value.why and "Wide" in caught.value.where
    model = nn.Linear(2, 2)
    saved({"m": model, "o": Picky(model.parameters(), lr=0.1)}, tmp_path / "d")
    with pytest.raises(CheckpointError, match="KeyError: 'nesterov'"):
        load(tmp_path / "d", {"m": model, "o": Picky(model.parameters(), lr=0.1)})
