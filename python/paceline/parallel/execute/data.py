"""Replicas with shares of different sizes. Each replica has the whole model."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from paceline._native import cut_evenly
from paceline.parallel import batch as batches
from paceline.parallel.execute.common import Executor, Work, mean_loss, recompute, summed_loss
from paceline.parallel.execute.reduce import Reduction
from paceline.parallel.execute.tensor import Divided, mesh_of


def shared_parts(
    work: Work, model: nn.Module, chunks: list[list[str]]
) -> tuple[Divided | None, DeviceMesh | None]:
    """Divide the layers that this rank shares with others, if any. Returns the ranks over which.

    `chunks`: the layers of this rank, by the pass in which they run.
    """
    if work.tensor is None:
        return None, None
    mesh = mesh_of(work)
    return Divided(work, model, mesh, chunks), mesh


class Replica(Executor):
    """Works through its share in `micro_batches` passes; gradients are summed after the last one.

    Each pass's loss is weighted by its samples ÷ the global batch, so that the sum over all passes
    of all replicas is the gradient of the mean over the global batch, whatever the shares.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        # Before the layers are divided: what divides a block's sequence has to run again with it.
        recompute(work, work.model, work.layers.names)
        self._divided, _ = shared_parts(work, work.model, [work.layers.names])
        if work.tensor is not None:
            self.norm_groups = [work.tensor]
        self._reduction = Reduction(self.parameters, work.replicas)

    def step(self, inputs: Any, targets: Any) -> torch.Tensor:
        total = torch.zeros((), device=self.work.device)
        passes = list(self._passes(inputs, targets))
        if self._divided is not None:
            self._divided.begin()
        for number, (some, wanted, weight) in enumerate(passes):
            is_last = number == len(passes) - 1
            self._before(is_last=is_last)
            with self.work.computing():
                output = batches.call(self.model, some)
                loss = mean_loss(self.work, output, wanted) * weight
            loss.backward()
            total += loss.detach()
        self.worked()
        self._after()
        if self._divided is not None:
            self._divided.end()
        return total

    def _passes(self, inputs: Any, targets: Any) -> Iterator[tuple[Any, Any, float]]:
        """Inputs, targets and weight of each pass."""
        size, count = batches.samples(inputs), self.work.plan.micro_batches
        for number in range(count):
            begin, end = cut_evenly(0, size, number, count)
            weight = (end - begin) / self.work.plan.global_batch
            yield batches.part(inputs, size, begin, end), batches.part(
                targets, size, begin, end
            ), weight  # fmt: skip

    def _before(self, *, is_last: bool) -> None:
        if is_last:
            self._reduction.arm()

    def _after(self) -> None:
        self._reduction.finish()

    def evaluate(self, inputs: Any, targets: Any) -> torch.Tensor:
        return summed_loss(self.work, self.model, inputs, targets)
