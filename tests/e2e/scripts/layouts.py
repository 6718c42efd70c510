"""Saves tensors and models in every layout of a world, and loads them into every layout of another.

    layouts.py save DIR     one checkpoint with everything, in each layout
    layouts.py load DIR     each of them into each layout of this world, compared bit for bit

What was saved by whom does not matter: entries are named by layout and world, and the names that
DIR/entries lists are loaded.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

SHAPES = {"matrix": (10, 12), "vector": (7,), "cube": (6, 5, 4), "scalar": ()}
STEPS = 3
PARTS = [["rows"], ["columns"], ["same"], ["rows", "columns"], ["columns", "rows"],
         ["rows", "rows"], ["same", "rows"], ["columns", "same"]]


def layouts(world: int) -> list[list[str]]:
    """A word a dimension of the mesh; two dimensions when the world is 2x2."""
    return [parts for parts in PARTS if len(parts) == 1 or world == 4]


@cache
def mesh_of(dimensions: int) -> DeviceMesh:
    """Of the whole world; made once, since each makes process groups."""
    if dimensions == 2:
        return init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    return init_device_mesh("cpu", (dist.get_world_size(),))


def whole(name: str) -> torch.Tensor:
    seed = torch.Generator().manual_seed(len(name))
    return torch.randn(SHAPES[name], generator=seed)


def placed(parts: list[str], tensor: torch.Tensor) -> DTensor:
    def placement(part: str) -> Placement:
        axis = {"rows": 0, "columns": 1, "same": 9}[part]
        return Shard(axis) if axis < tensor.dim() else Replicate()

    return distribute_tensor(tensor, mesh_of(len(parts)), [placement(part) for part in parts])


def tensors(parts: list[str], *, zeros: bool = False) -> dict[str, torch.Tensor]:
    made = {name: whole(name) for name in SHAPES}
    return {n: placed(parts, torch.zeros_like(t) if zeros else t) for n, t in made.items()}


def trainer(kind: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """One model, cut in one of the ways that people cut models."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if kind == "tp":
        parallelize_module(net, mesh_of(1), plan)
    elif kind == "fsdp":
        fully_shard(net, mesh=mesh_of(1))
    elif kind == "both":
        mesh = mesh_of(2)
        parallelize_module(net, mesh["tensor"], plan)
        fully_shard(net, mesh=mesh["data"])
    return net, torch.optim.AdamW(net.parameters(), lr=0.05)


def kinds() -> list[str]:
    return ["plain", "tp", "fsdp", *(["both"] if dist.get_world_size() == 4 else [])]


def state_of(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[
    tuple[str, torch.Tensor]
]:
    for name, parameter in net.named_parameters():
        yield name, parameter
        for what, value in optimizer.state[parameter].items():
            yield f"{name}.{what}", value


def full(value: torch.Tensor) -> torch.Tensor:
    return (value.full_tensor() if isinstance(value, DTensor) else value).detach()


def save(folder: Path) -> None:
    world = dist.get_world_size()
    state: dict[str, object] = {"rank": pl.rank()}
    facts: dict[str, dict[str, torch.Tensor]] = {}
    for parts in layouts(world):
        state["tensors-" + "-".join(parts)] = tensors(parts)
    for kind in kinds():
        net, optimizer = trainer(kind)
        for step in range(STEPS):
            batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            net(batch).square().mean().backward()
            optimizer.step()
        state |= {f"model-{kind}": net, f"optimizer-{kind}": optimizer}
        facts[kind] = {name: full(value).clone() for name, value in state_of(net, optimizer)}
    ckpt = pl.Checkpointer(folder / "ckpt")
    assert ckpt.restore(state) == 0
    ckpt.save(0, state)
    ckpt.close()
    if dist.get_rank() == 0:
        torch.save(facts, folder / "facts.pt")
        (folder / "entries").write_text("\n".join(state))


def load(folder: Path) -> None:
    facts = torch.load(folder / "facts.pt", weights_only=True)
    count = 0
    for entry in (folder / "entries").read_text().split():
        if entry.startswith("tensors-"):
            for parts in layouts(dist.get_world_size()):
                state = {entry: tensors(parts, zeros=True)}
                pl.load(folder / "ckpt", state, strict=False)
                for name, wanted in tensors(parts).items():
                    got = state[entry][name]
                    assert isinstance(got, DTensor) and isinstance(wanted, DTensor)
                    assert got.placements == wanted.placements
                    assert torch.equal(got.to_local(), wanted.to_local()), (entry, parts, name)
                count += 1
        if entry.startswith("model-"):
            source = entry.removeprefix("model-")
            for kind in kinds():
                net, optimizer = trainer(kind)
                state = {entry: net, f"optimizer-{source}": optimizer}
                pl.load(folder / "ckpt", state, strict=False)
                found = dict(state_of(net, optimizer))
                assert set(found) == set(facts[source])
                for name, value in found.items():
                    assert torch.equal(full(value), facts[source][name]), (entry, kind, name)
                count += 1
    (folder / f"loaded-{dist.get_world_size()}-{dist.get_rank()}").write_text(str(count))


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    {"save": save, "load": load}[sys.argv[1]](Path(sys.argv[2]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
