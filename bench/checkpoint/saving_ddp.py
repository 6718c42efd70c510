"""The workload of the checkpoint benchmarks: small DDP beside a large state, saved each step.

Like small_ddp.py, with `--state` bytes a rank that differ from rank to rank, as a shard of a large
model would. They are drawn when there is nothing to restore, and only made room for when there is:
drawing them takes longer than everything else of a restart. The arithmetic is small on purpose:
what is measured is the saving and the coming back, not a matrix product.
"""

import argparse
import json
import os
import time
from pathlib import Path

BEGIN = time.monotonic()  # before torch is imported

import paceline.torch as pl  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description="The workload of the checkpoint benchmarks.")
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--state", type=int, default=256 << 20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    met = time.monotonic()
    rank = dist.get_rank()
    about = {"rank": rank, "pid": os.getpid(), "world": dist.get_world_size(), "begin": BEGIN,
             "met": met}
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    shard = torch.empty(args.state // 4)
    state = {"model": model, "optimizer": optimizer, "shard": nn.ParameterDict({"shard": shard})}
    points = torch.randn(32, 64)
    checkpoints = pl.Checkpointer(args.checkpoints, keep=1, every="10m")
    about["asked"] = time.monotonic()
    first = checkpoints.restore(state)
    about["restored"] = time.monotonic()
    if first == 0:
        shard.normal_()
    with (args.stamps / f"{rank}.{os.getpid()}").open("a", buffering=1) as stamps:
        for step in range(first, 1 << 60):
            model(points).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            begun = time.monotonic()
            checkpoints.save(step, state)
            at = time.monotonic()
            number = step - first + 1  # counted as small_ddp.py counts: 1 is a process's first
            row = {**about, "step": number, "at": at, "absolute": step, "stall": at - begun}
            print(json.dumps(row), file=stamps)


if __name__ == "__main__":
    main()
