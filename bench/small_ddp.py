"""The workload of the benchmarks: a small DDP model that notes when its steps were done.

Each process appends JSON lines to a file of its own, `STAMPS/RANK.PID`: the first step, and then
every `--every` steps, with CLOCK_MONOTONIC, which all processes of a machine share. It is a plain
torchrun script and knows nothing about who started it.
"""

import argparse
import json
import os
import time
from pathlib import Path

BEGIN = time.monotonic()  # before torch is imported

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description="The workload of the benchmarks.")
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1 << 60)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    about = {"rank": rank, "pid": os.getpid(), "world": dist.get_world_size(), "begin": BEGIN}
    torch.manual_seed(0)
    layers = [nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 1)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    points = torch.randn(32, args.width)
    with (args.stamps / f"{rank}.{os.getpid()}").open("a", buffering=1) as stamps:
        for step in range(1, args.steps + 1):
            model(points).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 1 or step % args.every == 0:
                print(json.dumps({**about, "step": step, "at": time.monotonic()}), file=stamps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
