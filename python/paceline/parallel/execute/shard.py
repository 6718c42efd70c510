"""Replicas that divide parameters, gradients and the optimizer's state among them: FSDP2.

FSDP2 averages gradients over the ranks, which is right for equal shares only. Here each loss is
already weighted by its samples, so gradients are summed: the divide factor is 1. gloo cannot scale
while it reduces, so a plain sum is forced.
"""

from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from paceline.parallel.execute.common import Executor, Work, must_have_calls, recompute
from paceline.parallel.execute.data import Replica, shared_parts
from paceline.parallel.layers import shared_between

_CALLS = (
    "set_gradient_divide_factor",
    "set_force_sum_reduction_for_comms",
    "set_requires_gradient_sync",
)


def divide(
    work: Work,
    root: nn.Module,
    layers: list[nn.Module],
    shared: set[int],
    mesh: DeviceMesh | None = None,
) -> None:
    """Make each layer a unit of FSDP2, and the rest of `root` another one.

    A parameter that several layers share stays with the root, because it can be in one unit only.
    In a pipeline, a stage gathers its parameters once a step and not for each micro-batch, because
    many micro-batches are in flight at once. `mesh`: the ranks that share layers.
    """
    try:
        from torch.distributed.fsdp import FSDPModule, fully_shard
    except ImportError:
        from torch.distributed import fsdp

        must_have_calls(fsdp, ("fully_shard",), work.plan.told())
        raise
    must_have_calls(FSDPModule, _CALLS, work.plan.told())
    assert work.replicas is not None
    own = mesh["data"] if mesh else DeviceMesh.from_group(work.replicas, work.device.type)
    options: dict[str, Any] = {"mesh": own}
    if work.plan.is_pipeline:
        options["reshard_after_forward"] = False
    for layer in layers:
        held = list(layer.parameters())
        if layer is not root and held and not any(id(one) in shared for one in held):
            fully_shard(layer, **options)
    fully_shard(root, **options)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


class Sharded(Replica):
    """As `Replica`, but each pass gathers the parameters. So all ranks run `micro_batches`
    passes.
    """

    def __init__(self, work: Work) -> None:
        Executor.__init__(self, work)
        layers = work.layers.of(work.model)
        shared = set(shared_between(work.model, work.layers))
        recompute(work, work.model, work.layers.names)
        self._divided, mesh = shared_parts(work, work.model, [work.layers.names])
        divide(work, work.model, layers, shared, mesh)
        assert work.replicas is not None
        self.norm_groups: list[dist.ProcessGroup] = [work.replicas]
        if work.tensor is not None:
            self.norm_groups.append(work.tensor)

    def _before(self, *, is_last: bool) -> None:
        model: Any = self.model
        model.set_requires_gradient_sync(is_last)

    def _after(self) -> None:
        pass
