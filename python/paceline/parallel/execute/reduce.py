"""Gradients of replicas, summed once a step, while the last backward pass still runs."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.parallel.execute.common import as_part_of, local_gradient, local_of

_BUCKET_BYTES = 25 << 20


class Reduction:
    """Sums gradients over a group, in buckets that every rank sends in the same order.

    reduction = Reduction(parameters, group)
    reduction.arm()     # before the step's last backward pass
    loss.backward()     # a bucket is sent as soon as its gradients are computed
    reduction.finish()

    DistributedDataParallel is not used, because it divides by the number of replicas, which is
    wrong for unequal shares, and does not support pipelines. The last layer's gradients come first,
    so buckets are filled from the end.
    """

    def __init__(self, parameters: list[nn.Parameter], group: "dist.ProcessGroup | None") -> None:
        self._group = group
        self._buckets = _bucketed(parameters) if group is not None else []
        self._buffers: list[torch.Tensor | None] = [None] * len(self._buckets)
        self._place = {id(one): n for n, bucket in enumerate(self._buckets) for one in bucket}
        self._missing: list[int] = []
        self._sent: list[tuple[torch.Tensor, Any]] = []
        self._is_armed = False
        for bucket in self._buckets:
            for one in bucket:
                one.register_post_accumulate_grad_hook(self._accumulated)

    def arm(self) -> None:
        """Call before the step's last backward pass."""
        self._missing = [len(bucket) for bucket in self._buckets]
        self._is_armed = True

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if not self._is_armed:
            return
        self._missing[self._place[id(parameter)]] -= 1
        while len(self._sent) < len(self._buckets) and self._missing[len(self._sent)] <= 0:
            self._send()

    def _send(self) -> None:
        number = len(self._sent)
        bucket, buffer = self._buckets[number], self._buffers[number]
        pieces = [_flat(one) for one in bucket]
        if buffer is None:
            buffer = self._buffers[number] = torch.cat(pieces)
        else:
            torch.cat(pieces, out=buffer)
        self._sent.append((buffer, dist.all_reduce(buffer, group=self._group, async_op=True)))

    def finish(self) -> None:
        """Wait for the sums. Afterwards every gradient is the sum over the group.

        Each gradient is a view of its bucket, which the next step overwrites. So `zero_grad` must
        set gradients to None before the next backward pass, which is its default.
        """
        self._is_armed = False
        while len(self._sent) < len(self._buckets):
            self._send()
        for (flat, work), bucket in zip(self._sent, self._buckets, strict=True):
            work.wait()
            at = 0
            for one in bucket:
                own = local_of(one)
                summed = flat[at : at + own.numel()].view_as(own)
                one.grad = as_part_of(one, summed)
                at += own.numel()
        self._sent = []


def _flat(parameter: nn.Parameter) -> torch.Tensor:
    """This rank's part of the gradient, or zeros where the parameter was not used."""
    found = local_gradient(parameter)
    return torch.zeros_like(local_of(parameter)).flatten() if found is None else found.flatten()


def _bucketed(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    buckets: list[list[nn.Parameter]] = []
    room, kind = 0, None
    for one in reversed(parameters):
        size = local_of(one).numel() * one.element_size()
        if not buckets or size > room or one.dtype != kind:
            buckets.append([])
            room, kind = _BUCKET_BYTES, one.dtype
        buckets[-1].append(one)
        room -= size
    return buckets
