"""Tensors that wrap others, as the state of low-bit optimizers: saved by their inner tensors."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from paceline.torch import Checkpointer, CheckpointError, load
from torch import nn, optim

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]

State = dict[str, Any]


class Bytes(torch.Tensor):
    """A float tensor that is kept as bytes and one scale."""

    codes: torch.Tensor
    scale: torch.Tensor
    signed: object

    @staticmethod
    def __new__(
        cls: Any, codes: torch.Tensor, scale: torch.Tensor, signed: object, dtype: torch.dtype
    ) -> "Bytes":
        made = torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=dtype)  # pyright: ignore
        made.codes, made.scale, made.signed = codes, scale, signed
        return cast("Bytes", made)

    def __tensor_flatten__(self) -> Any:
        return ["codes", "scale"], [self.signed, self.dtype]

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, torch.Tensor], context: Any, _size: Any, _stride: Any
    ) -> "Bytes":
        return cls(inner["codes"], inner["scale"], *context)  # pyright: ignore

    @classmethod
    def __torch_dispatch__(  # pyright: ignore
        cls, func: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        one = args[0]
        if func is torch.ops.aten.copy_.default and isinstance(one, Bytes):
            given = args[1]
            one.codes.copy_(given.codes if isinstance(given, Bytes) else coded(given)[0])
            one.scale.copy_(given.scale if isinstance(given, Bytes) else coded(given)[1])
            return one
        if func in (torch.ops.aten.detach.default, torch.ops.aten.view.default):
            return cls(one.codes, one.scale, one.signed, one.dtype)  # pyright: ignore
        raise NotImplementedError(f"{func}")

    def __repr__(self) -> str:  # pyright: ignore
        return "Bytes"

    def whole(self) -> torch.Tensor:
        return (self.codes.float() - 128) * self.scale


def coded(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = value.abs().max() / 127 + 1e-12
    return (value / scale + 128).round().to(torch.uint8), scale


def as_bytes(value: torch.Tensor, signed: object = True) -> Any:
    return Bytes(*coded(value), signed, value.dtype)  # pyright: ignore


class Momentum(optim.Optimizer):
    def __init__(self, parameters: Any, rate: float, signed: object = True) -> None:
        super().__init__(parameters, {"lr": rate})
        self.signed = signed

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore
        for group in self.param_groups:
            for one in group["params"]:
                if "mean" not in self.state[one]:
                    self.state[one]["mean"] = as_bytes(torch.zeros_like(one), self.signed)
                mean = self.state[one]["mean"]
                now = 0.9 * mean.whole() + one.grad
                mean.copy_(now)
                one.sub_(now, alpha=group["lr"])


def net() -> nn.Linear:
    torch.manual_seed(3)
    return nn.Linear(6, 3)


def made(signed: object = True) -> State:
    model = net()
    return {"model": model, "optimizer": Momentum(model.parameters(), 0.1, signed)}


def stepped(state: State) -> None:
    state["optimizer"].zero_grad()
    state["model"](torch.ones(2, 6)).pow(2).sum().backward()
    state["optimizer"].step()


def saved(state: State, place: Path) -> None:
    with Checkpointer(place) as ckpt:
        ckpt.save(0, state).wait("durable")


def assert_equal(one: State, other: State) -> None:
    pairs = zip(one["model"].parameters(), other["model"].parameters(), strict=True)
    for a, b in pairs:
        assert torch.equal(a, b)
        mean, back = (s["optimizer"].state[p]["mean"] for s, p in ((one, a), (other, b)))
        assert type(back) is type(mean) and back.__tensor_flatten__() == mean.__tensor_flatten__()
        assert torch.equal(mean.codes, back.codes) and torch.equal(mean.scale, back.scale)


def test_a_new_optimizer_goes_on_as_the_old_one(tmp_path: Path) -> None:
    state, fresh = made(), made()
    for _ in range(3):
        stepped(state)
    saved(state, tmp_path / "c")
    assert load(tmp_path / "c", fresh).replaced == []
    assert_equal(state, fresh)
    for each in (state, fresh):
        stepped(each)
    assert_equal(state, fresh)


def test_live_state_is_filled_in_place(tmp_path: Path) -> None:
    state, live = made(), made()
    for each in (state, live, live):
        stepped(each)
    saved(state, tmp_path / "c")
    mean = live["optimizer"].state[live["model"].weight]["mean"]
    codes = mean.codes
    assert load(tmp_path / "c", live).replaced == []
    assert_equal(state, live)
    assert live["optimizer"].state[live["model"].weight]["mean"] is mean and mean.codes is codes


def test_every_save_has_the_newest_bytes(tmp_path: Path) -> None:
    state, fresh = made(), made()
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        for step in range(4):
            stepped(state)
            ckpt.save(step, state)
    load(tmp_path / "c", fresh)
    assert_equal(state, fresh)


def test_parameters_and_entries_may_be_of_that_kind(tmp_path: Path) -> None:
    def state(value: float) -> State:
        model = nn.Linear(2, 2)
        weight = as_bytes(torch.full((2, 2), value))
        model.weight = nn.Parameter(weight, requires_grad=False)
        return {"model": model, "more": {"best": as_bytes(torch.full((3,), value))}}

    one, other = state(1.0), state(2.0)
    saved(one, tmp_path / "c")
    load(tmp_path / "c", other)
    assert torch.equal(one["model"].weight.whole(), other["model"].weight.whole())
    assert torch.equal(one["more"]["best"].whole(), other["more"]["best"].whole())
    with pytest.raises(CheckpointError, match=r"model\.weight was not saved"):
        load(tmp_path / "c", {"model": nn.Linear(2, 2), "more": {}})


def test_a_plain_tensor_does_not_become_one(tmp_path: Path) -> None:
    plain, model = nn.Linear(2, 2), nn.Linear(2, 2)
    saved({"model": plain}, tmp_path / "c")
    model.weight = nn.Parameter(as_bytes(torch.ones(2, 2)), requires_grad=False)
    with pytest.raises(CheckpointError, match=r"model\.weight is a Bytes now, and was saved as no"):
        load(tmp_path / "c", {"model": model})
    assert load(tmp_path / "c", {"model": model}, strict=False).left_out
    assert torch.equal(model.bias, plain.bias)


@pytest.fixture
def other_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of this process alone, with a class of that kind."""
    module = ModuleType("bytes_of_others")
    kind = type("Theirs", (Bytes,), {"__module__": module.__name__})
    vars(module)["Theirs"] = kind
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(f"{__name__}.Bytes", kind)
    yield module


def test_a_class_is_never_imported(
    other_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, fresh = made(), made()
    stepped(state)
    saved(state, tmp_path / "c")
    monkeypatch.delitem(sys.modules, other_module.__name__)
    (tmp_path / "bytes_of_others.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CheckpointError) as error:
        load(tmp_path / "c", fresh)
    assert "bytes_of_others.Theirs, and no such class is imported" in str(error.value)
    assert "import bytes_of_others before the restore" in str(error.value)
    assert other_module.__name__ not in sys.modules
    model = net()
    assert load(tmp_path / "c", {"model": model}, strict=False).left_out
    assert torch.equal(model.weight, state["model"].weight)
    monkeypatch.setitem(sys.modules, other_module.__name__, other_module)
    load(tmp_path / "c", fresh)
    assert_equal(state, fresh)


def test_a_context_that_is_no_plain_value_is_refused(tmp_path: Path) -> None:
    state = made(signed=object())
    stepped(state)
    with Checkpointer(tmp_path / "c") as ckpt, pytest.raises(CheckpointError) as error:
        ckpt.save(0, state)
    assert "optimizer.scalars.model.weight.mean.context.0: a builtins.object" in str(error.value)
    assert "an object with state_dict and load_state_dict of your own" in str(error.value)


def test_parts_of_a_distributed_tensor(tmp_path: Path) -> None:
    from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    def sharded() -> State:
        model = cast("nn.Linear", fully_shard(net()))
        return {"model": model, "optimizer": Momentum(model.parameters(), 0.1)}

    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        state, fresh = sharded(), sharded()
        for one in state["model"].parameters():
            its = DTensor.from_local(
                as_bytes(torch.ones_like(one.to_local())), one.device_mesh, one.placements
            )
            state["optimizer"].state[one] = {"mean": its}
        saved(state, tmp_path / "c")
        load(tmp_path / "c", fresh)
        for a, b in zip(state["model"].parameters(), fresh["model"].parameters(), strict=True):
            mean, back = (
                s["optimizer"].state[p]["mean"] for s, p in ((state, a), (fresh, b))
            )
            assert isinstance(back, DTensor) and back.placements == mean.placements
            assert torch.equal(back.to_local().codes, mean.to_local().codes)  # pyright: ignore
    finally:
        dist.destroy_process_group()
