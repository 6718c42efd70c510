"""Cuts by measured speed under torch: exchanges times, and weights gradients by samples."""

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from paceline._data.cut import Clock, Gather
from paceline.errors import DataError

if TYPE_CHECKING:
    from paceline._data.loader import BaseLoader


def gather_over(group: "dist.ProcessGroup | None" = None) -> Gather:
    """A `gather` for `CutBySpeed`: exchanges rows of numbers over a process group.

    Args:
        group: the process group. None: the world. A group without a CPU backend gets a gloo group
            beside it at the first use.

    Returns:
        A function from this rank's row to the rows of all ranks, in rank order.

    Raises:
        DataError: from that function, if there is no process group.
    """
    found: list[dist.ProcessGroup | None] = []

    def gather(row: list[float]) -> list[list[float]]:
        if not found:
            found.append(_over_memory(group))
        mine = torch.tensor(row, dtype=torch.float64)
        rows = [torch.empty_like(mine) for _ in range(dist.get_world_size(found[0]))]
        dist.all_gather(rows, mine, group=found[0])
        return [one.tolist() for one in rows]

    return gather


def _over_memory(group: "dist.ProcessGroup | None") -> "dist.ProcessGroup | None":
    if not dist.is_initialized():
        raise DataError(
            what="the ranks cannot exchange their times",
            where="CutBySpeed",
            why="there is no process group",
            fix="call torch.distributed.init_process_group before the first step",
        )
    if "gloo" in dist.get_backend(group) or "cpu:" in dist.get_backend_config(group):
        return group
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    made = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return cast("dist.ProcessGroup", made)


def weigh_by_samples(
    model: DistributedDataParallel, loader: "BaseLoader", *, weigh: bool = True
) -> None:
    """Makes a DDP model's gradients the mean over the step's samples, whatever the shares.

    model = DistributedDataParallel(net)
    weigh_by_samples(model, loader)

    Registers DDP's communication hook. It weights each rank's gradients by the rank's samples
    before the sum, and reports to the loader when this rank's own work was done.

    Args:
        model: its loss stays a mean over the batch; do not multiply it by `loader.weight`.
        loader: an `ElasticLoader`.
        weigh: False: only report to the loader, for loops that multiply the loss by
            `loader.weight`, as those with micro-batches must.

    Raises:
        DataError: `weigh` with micro-batches.
    """
    if weigh and loader.micro_batch:
        raise DataError(
            what="gradients of micro-batches cannot be weighted together",
            where="weigh_by_samples",
            why="DDP reduces the sum of several parts, which may have different numbers of samples",
            fix="use weigh=False, and multiply the loss by loader.weight",
        )
    group = cast("Any", model).process_group
    world = dist.get_world_size(group)

    def hook(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        by_speed = loader.by_speed
        if by_speed is not None and buffer.is_cuda and by_speed.clock is not DEVICE_CLOCK:
            by_speed.use_clock(DEVICE_CLOCK)
        loader.worked()
        buffer.mul_((loader.weight if weigh else 1.0) / world)
        future: Any = dist.all_reduce(buffer, group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    cast("Any", model).register_comm_hook(None, hook)


def _mark() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    end.synchronize()
    return begin.elapsed_time(end) / 1000


# The device runs behind the script, so its time is measured between two events on its stream.
DEVICE_CLOCK = Clock(mark=_mark, between=_between)
