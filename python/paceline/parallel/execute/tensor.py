"""Layers that several ranks share: DTensor's `parallelize_module` over the ranks of a replica.

Each rank has a part of the weights and computes all samples of its replica. Inputs and outputs of
modules are ordinary tensors, so the model's own code runs unchanged.
"""

import inspect
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate

from paceline.parallel.errors import PlanError
from paceline.parallel.execute.common import Work, local_gradient, must_have_calls
from paceline.parallel.tensor import SUMMED


def mesh_of(work: Work) -> DeviceMesh:
    """The mesh of the ranks that share layers. With shards, replicas are its first dimension."""
    place, plan = work.place, work.plan
    assert place is not None and work.tensor is not None
    must_have_calls(DeviceMesh, ("from_group",), plan.told())
    if not plan.shard:
        return DeviceMesh.from_group(work.tensor, work.device.type, mesh_dim_names=("tensor",))
    assert work.replicas is not None
    rows = torch.tensor(rows_of(plan.parts(place.stage), plan.told()))
    return DeviceMesh.from_group(
        [work.replicas, work.tensor], work.device.type, rows,
        mesh_dim_names=("data", "tensor"),
    )  # fmt: skip


def rows_of(parts: list[list[int]], plan: str = "") -> list[list[int]]:
    """The replicas in the order of their ranks. Each is a list of the ranks that share its layers.

    torch's groups are in the order of their ranks, so columns have to be as well.
    """
    rows = sorted(parts)
    for first, second in pairwise(rows):
        if any(a >= b for a, b in zip(first, second, strict=True)):
            raise PlanError(
                what=f"these ranks cannot share layers and shards: {plan}",
                where=f"ranks {parts}",
                why="the ranks of one replica lie between those of another",
                fix='ranks in the order of the replicas, or wishes={"shard": [False]}',
            )
    return rows


class Divided:
    """This rank's part of the layers of its stage. The model is changed in place."""

    def __init__(self, work: Work, model: nn.Module, mesh: DeviceMesh) -> None:
        from torch.distributed.tensor import parallel

        place = work.place
        assert place is not None and work.tensor is not None
        must_have_calls(parallel, ("parallelize_module", "ColwiseParallel", "RowwiseParallel"),
                        work.plan.told())  # fmt: skip
        self._group, self._device = work.tensor, work.device
        self._first = work.plan.parts(place.stage)[place.replica][0]
        apply: Any = parallel.parallelize_module
        # All ranks have the whole weights already, so none are sent. An older torch sends them
        # again.
        known = inspect.signature(apply).parameters
        options: dict[str, Any] = {"src_data_rank": None} if "src_data_rank" in known else {}
        own = mesh["tensor"]
        self._summed: list[nn.Module] = []
        for name, style in work.study.division.styles.items():
            module = _found(model, name)
            if module is None or not any(True for _ in module.parameters()):
                continue  # another stage has it
            if style == SUMMED:
                self._summed.append(module)
            else:
                apply(module, own, _style(style), **options)
                if work.plan.shard and style == "colwise_gather_output":
                    # An in-place operation on a view would remove FSDP2's hook.
                    module.register_forward_hook(_copied)

    def begin(self) -> None:
        """Set the same random state on all ranks that share layers; otherwise their sums would be
        wrong.

        Dropout between divided layers has to drop the same elements on each rank.
        """
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        moved = [one.to(self._device) for one in states]
        for one in moved:
            dist.broadcast(one, self._first, group=self._group)
        torch.set_rng_state(moved[0].cpu())
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(moved[1].cpu(), self._device)

    def end(self) -> None:
        """Add up the gradients of parameters that are whole on each rank but see only a part of
        the work.
        """
        for module in self._summed:
            for one in module.parameters(recurse=False):
                found = local_gradient(one)
                if found is not None:
                    dist.all_reduce(found, group=self._group)


def _copied(_: nn.Module, __: object, output: torch.Tensor) -> torch.Tensor:
    return output.clone()


def _found(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _style(name: str) -> Any:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    if name == "colwise":
        return ColwiseParallel()
    if name == "colwise_gather_output":
        return ColwiseParallel(output_layouts=Replicate())
    if name == "embedding_rowwise":
        return RowwiseParallel(input_layouts=Replicate())
    return RowwiseParallel()
