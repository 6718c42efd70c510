"""A weight that the first and the last layer share, where they are in two stages.

Both stages have a copy under the names of the undivided model. Equal ranks of the two stages sum
its gradients once a step, behind the sums of the replicas. So both optimizers do the same step, and
the copies stay equal. The norm of the gradients counts the copy of the first stage.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.parallel.execute.common import Work, local_gradient
from paceline.parallel.plan import ParallelPlan


def pairs_of(plan: ParallelPlan) -> list[list[int]]:
    """The ranks that sum the gradients of copies: one of the first stage and one of the last.

    Ranks are paired in ascending order, because FSDP2 gives shards in that order.
    """
    ends = (0, len(plan.stages) - 1)
    first, last = (plan.replicas(stage) for stage in ends)
    return [
        list(pair)
        for some, others in zip(first, last, strict=True)
        for pair in zip(sorted(some), sorted(others), strict=True)
    ]


def held_names(work: Work) -> dict[str, str]:
    """The names under which this rank's stage holds a weight of a layer that it does not have.

    Each has the name under which one of its own layers holds the same weight.
    """
    ends = (0, len(work.plan.stages) - 1)
    if work.place is None or not work.plan.is_pipeline or work.place.stage not in ends:
        return {}
    inside = f"{work.layers.names[-1 if work.place.stage else 0]}."
    found: dict[str, str] = {}
    for names in work.study.ties:
        own = next(one for one in names if one.startswith(inside))
        found |= {one: own for one in names if not one.startswith(inside)}
    return found


class Copies:
    """The copies of this rank's stage: `copies.sum()` after its replicas have summed gradients."""

    def __init__(self, work: Work, model: nn.Module) -> None:
        held = dict.fromkeys(held_names(work).values())
        own = [model.get_parameter(name) for name in held]
        self._parameters = [one for one in own if one.requires_grad]
        self._group = work.copies
        self._is_first = work.place is not None and work.place.stage == 0

    def sum(self) -> None:
        for one in self._parameters:
            if one.grad is None:
                one.grad = torch.zeros_like(one)
            gradient: Any = local_gradient(one)
            whole = gradient.contiguous()
            dist.all_reduce(whole, group=self._group)
            if whole is not gradient:
                gradient.copy_(whole)

    def counts(self, parameter: nn.Parameter) -> bool:
        """Whether this stage's copy counts in the norm of the gradients."""
        return self._is_first or all(one is not parameter for one in self._parameters)
