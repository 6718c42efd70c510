"""Names of tensors do not change with wrappers: at every depth, in both directions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from command import paceline
from paceline.torch import Checkpointer, CheckpointError, load
from safetensors.torch import load_file
from torch import nn, optim
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]

NAMES = ["body.bias", "body.weight", "head.bias", "head.weight"]


class Named(nn.Module):
    """Holds a module under a name of a wrapper's, and is none."""

    def __init__(self, name: str, inner: nn.Module) -> None:
        super().__init__()
        self.add_module(name, inner)
        self.name = name

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.name)(given)


class Counted(nn.Linear):
    """Makes its state_dict itself."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.count = 0

    def get_extra_state(self) -> int:
        return self.count

    def set_extra_state(self, state: Any) -> None:
        self.count = state


def compiled(module: nn.Module) -> nn.Module:
    return cast("nn.Module", torch.compile(module, backend="eager"))


WAYS: dict[str, Any] = {
    "plain": lambda one: one,
    "compiled": compiled,
    "checkpointed": checkpoint_wrapper,
    "both": lambda one: checkpoint_wrapper(compiled(one)),
    "compiled outside": lambda one: compiled(checkpoint_wrapper(one)),
    "parallel": lambda one: DistributedDataParallel(compiled(one)),
    # As older versions, and other programs, have saved it.
    "older": lambda one: Named("_orig_mod", one),
    "older, both": lambda one: Named("_checkpoint_wrapped_module", Named("_orig_mod", one)),
}


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def net(way: str, body: nn.Module | None = None) -> nn.ModuleDict:
    made = nn.ModuleDict({"body": body or nn.Linear(4, 4), "head": nn.Linear(4, 2)})
    made["body"] = WAYS[way](made["body"])
    return made


def stepped(model: nn.ModuleDict) -> dict[str, Any]:
    optimizer = optim.AdamW(model.parameters(), 0.1)
    model["head"](torch.tanh(model["body"](torch.ones(2, 4)))).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def saved(state: dict[str, Any], place: Path) -> dict[str, torch.Tensor]:
    with Checkpointer(place) as ckpt:
        ckpt.save(0, state).wait("durable")
    (folder,) = place.glob("step-*")
    return load_file(folder / "shard-00000.safetensors")


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    pairs = zip(one["model"].parameters(), other["model"].parameters(), strict=True)
    for a, b in pairs:
        assert torch.equal(a, b)
        for what in ("exp_avg", "exp_avg_sq", "step"):
            moments = one["optimizer"].state[a][what], other["optimizer"].state[b][what]
            assert torch.equal(*moments)


def fresh(model: nn.Module) -> dict[str, Any]:
    return {"model": model, "optimizer": optim.AdamW(model.parameters(), 0.5)}


@pytest.mark.parametrize("way", WAYS)
def test_a_wrapper_may_come_and_go(way: str, tmp_path: Path) -> None:
    state = stepped(net(way))
    tensors = saved(state, tmp_path / "c")
    if not way.startswith("older"):
        names = {f"model.{name}" for name in NAMES}
        assert {key for key in tensors if key.startswith("model.")} == names
        assert {key.rpartition(".")[0] for key in tensors if key.startswith("optimizer.")} == {
            f"optimizer.state.{name}" for name in names
        }
    for other in WAYS:
        if other.startswith("older") and other != way:
            continue  # names of the script's own, not of a wrapper
        back = fresh(net(other))
        done = load(tmp_path / "c", back)
        assert_equal(state, back)
        assert not done.left_out and not done.replaced


# torch leaves `_orig_mod` in the names of a compiled layer inside an activation checkpoint.
@pytest.mark.parametrize("way", ["compiled", "checkpointed", "compiled outside", "parallel"])
def test_the_names_are_those_of_torch(way: str, tmp_path: Path) -> None:
    state = stepped(net(way))
    model, _optimizer = get_state_dict(state["model"], state["optimizer"])
    tensors = saved(state, tmp_path / "c")
    assert {key for key in tensors if key.startswith("model.")} == {f"model.{key}" for key in model}


def test_moments_are_not_left_out_where_parts_may_be(tmp_path: Path) -> None:
    state = stepped(net("both"))
    saved(state, tmp_path / "c")
    back = fresh(net("compiled"))
    assert load(tmp_path / "c", back, strict=False).left_out == []
    assert_equal(state, back)


@pytest.mark.parametrize("way", ["compiled", "both", "older"])
def test_a_module_with_extra_state_has_plain_names_too(way: str, tmp_path: Path) -> None:
    state = stepped(net(way, Counted()))
    for module in state["model"].modules():
        if isinstance(module, Counted):
            module.count = 7
    saved(state, tmp_path / "c")
    for other in ("plain", "checkpointed", "compiled outside"):
        counted = Counted()
        back = fresh(net(other, counted))
        load(tmp_path / "c", back)
        assert_equal(state, back)
        assert counted.count == 7


def test_an_average_keeps_the_name_that_is_its_own(tmp_path: Path) -> None:
    average = AveragedModel(net("both"))
    tensors = saved({"average": average}, tmp_path / "c")
    names = {f"average.module.{name}" for name in NAMES}
    assert set(tensors) == names | {"average.n_averaged"}
    other = AveragedModel(net("plain"))
    load(tmp_path / "c", {"average": other})
    for a, b in zip(average.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


class Scaled(DistributedDataParallel):
    """A wrapper with a tensor beside that of its module, under the same name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.weight = nn.Parameter(torch.ones(1))


def test_names_that_would_be_equal_stay_as_they_are(tmp_path: Path) -> None:
    model = nn.ModuleDict({"body": Scaled(nn.Linear(4, 4))})
    tensors = saved({"model": model}, tmp_path / "c")
    assert set(tensors) == {"model.body.weight", "model.body.module.weight", "model.body.bias"}
    other = nn.ModuleDict({"body": Scaled(nn.Linear(4, 4))})
    load(tmp_path / "c", {"model": other})
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_module_may_have_a_name_of_a_wrapper(tmp_path: Path) -> None:
    model, other = (nn.ModuleDict({"_orig_mod": nn.Linear(2, 2)}) for _ in range(2))
    assert "model._orig_mod.weight" in saved({"model": model}, tmp_path / "c")
    load(tmp_path / "c", {"model": other})
    with pytest.raises(CheckpointError, match=r"model\.other\.weight was not saved"):
        load(tmp_path / "c", {"model": nn.ModuleDict({"other": nn.Linear(2, 2)})})


def test_fsdp_and_compiled_layers(tmp_path: Path) -> None:
    from torch.distributed.fsdp import fully_shard

    def sharded(way: str) -> nn.ModuleDict:
        model = net(way)
        for one in model.values():
            fully_shard(one)
        return model

    state = stepped(sharded("compiled outside"))
    tensors = saved(state, tmp_path / "c")
    assert {key for key in tensors if key.startswith("model.")} == {f"model.{n}" for n in NAMES}
    for back in (fresh(sharded("plain")), fresh(net("plain"))):
        load(tmp_path / "c", back)
        for a, b in zip(state["model"].parameters(), back["model"].parameters(), strict=True):
            assert torch.equal(a.full_tensor(), getattr(b, "full_tensor", lambda b=b: b)())


def test_exports_have_plain_names(tmp_path: Path) -> None:
    saved(stepped(net("older, both")), tmp_path / "c")
    done = paceline("ckpt", "export", str(tmp_path / "c"), str(tmp_path / "hf"), "--to", "hf")
    assert done.returncode == 0, done.stderr
    assert sorted(load_file(tmp_path / "hf/model.safetensors")) == NAMES
