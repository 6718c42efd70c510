"""Sums gradients in one order at any world size: see `FixedOrderReduction`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline._data.fingerprint import kept_chance
from paceline._data.sampler_order import seed_all
from paceline.errors import DataError
from paceline.integrations.elastic_loader import ElasticLoader


class FixedOrderReduction:
    """The same weights bit for bit at any world size that divides the number of virtual ranks.

    loader = ElasticLoader(data, global_batch=256, virtual_ranks=8)
    fixed = FixedOrderReduction(model.parameters(), loader)
    for batch in loader:
        with fixed.part():              # its random numbers depend on the data alone
            loss(model(batch)).backward()
        if loader.ends_step:
            fixed.reduce()              # .grad is the mean over the step's samples
            optimizer.step()
            optimizer.zero_grad()

    A virtual rank has the same samples in the same shapes on any rank. Gradients are added along
    one binary tree over the virtual ranks. The lower part of the tree is on one rank. In the upper
    part ranks exchange equal pieces of the gradients, add them in the tree's order and gather the
    sums, which moves as many bytes as a ring all-reduce. A rank runs n = virtual_ranks ÷ world_size
    batches a step and holds up to log2(n) + 1 copies of the gradients.

    Args:
        parameters: of a plain module, because DDP would reduce by itself. Its loss is a mean over
            the batch. Buffers, such as those of batch norm, are not reduced.
        loader: an `ElasticLoader` with virtual ranks.
        group: the process group. None: the world.

    Raises:
        DataError: the loader has no virtual ranks, or the group has another size.
    """

    def __init__(
        self,
        parameters: "Iterable[torch.nn.Parameter]",
        loader: ElasticLoader,
        *,
        group: "dist.ProcessGroup | None" = None,
    ) -> None:
        self._parameters = [one for one in parameters if one.requires_grad]
        self._loader = loader
        self._group = group
        self._sums: list[tuple[int, list[torch.Tensor]]] = []  # (height in the tree, sum)
        if not loader.virtual_ranks:
            raise DataError(
                what="the loader has no virtual ranks",
                where="FixedOrderReduction",
                why="its batches depend on the world size, and so would sums of them",
                fix="ElasticLoader(…, virtual_ranks=8)",
            )
        if loader.world_size > 1 and dist.get_world_size(group) != loader.world_size:
            raise DataError(
                what=f"the group has {dist.get_world_size(group)} ranks",
                where="FixedOrderReduction",
                why=f"the loader's world has {loader.world_size}",
                fix="the loader's rank and world_size are those of the group",
            )

    @contextmanager
    def part(self) -> Iterator[None]:
        """Wrap forward and backward of one batch. Its gradients are added to the step's sum."""
        share = self._loader.current
        assert share is not None, "a batch was yielded"
        seed = self._loader.data.terms()["seed"]
        with kept_chance():
            seed_all(f"model/{seed}/{share.epoch}/{share.step[0]}/{share.part}")
            yield
        gradients: list[torch.Tensor] = []
        for parameter in self._parameters:
            found = parameter.grad
            parameter.grad = None
            gradients.append(
                torch.zeros_like(parameter) if found is None else found.mul_(share.fraction)
            )
        height = 0
        while self._sums and self._sums[-1][0] == height:
            _, lower = self._sums.pop()
            gradients = [a.add_(b) for a, b in zip(lower, gradients, strict=True)]
            height += 1
        self._sums.append((height, gradients))

    def reduce(self) -> None:
        """Call after the step's last part. Sets `.grad` to the mean over the step's samples.

        Raises:
            DataError: not every batch of the step went through `part`.
        """
        if len(self._sums) != 1:
            raise DataError(
                what=f"the sum of this step is in {len(self._sums)} pieces",
                where="FixedOrderReduction.reduce",
                why="not every batch of the step went through part()",
                fix="call it once, when loader.ends_step is true",
            )
        ((_height, gradients),) = self._sums
        self._sums = []
        if self._loader.world_size > 1:
            for several in by_dtype(gradients):
                self._exchange(several)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient

    def _exchange(self, gradients: list[torch.Tensor]) -> None:
        world = self._loader.world_size
        size = sum(one.numel() for one in gradients)
        each = -(-size // world)
        flat = gradients[0].new_zeros(each * world)
        torch.cat([one.reshape(-1) for one in gradients], out=flat[:size])
        pieces: Any = torch.empty_like(flat)
        dist.all_to_all_single(pieces, flat, group=self._group)
        rows = list(pieces.view(world, each).unbind())
        while len(rows) > 1:  # a power of two
            rows = [rows[i].add_(rows[i + 1]) for i in range(0, len(rows), 2)]
        dist.all_gather_into_tensor(flat, rows[0].contiguous(), group=self._group)
        at = 0
        for one in gradients:
            one.copy_(flat[at : at + one.numel()].view_as(one))
            at += one.numel()


def by_dtype(gradients: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Gradients grouped by type. Groups follow the parameters, so all ranks have one order."""
    kinds = dict.fromkeys(one.dtype for one in gradients)
    return [[one for one in gradients if one.dtype == kind] for kind in kinds]
