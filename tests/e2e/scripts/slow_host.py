"""Trains over gloo. One node works longer than the others, as a slow host does.

The slow node is the one that had rank 1 first: which node that is depends on who joined in time.

The state is one number, which rank 0 saves after every tenth step.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import paceline

WORK_S = 0.04
SAVE_EVERY = 10


def saved_step(state: Path) -> int:
    return int(state.read_text()) if state.exists() else 0


def save(state: Path, step: int) -> None:
    part = state.with_suffix(".part")
    part.write_text(str(step))
    part.rename(state)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--enough", type=Path, required=True, help="ends the job once it is there")
    parser.add_argument("--slow", type=Path,
                        help="a file for the slow node's name; without it no node is slow")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    node = os.environ["PACELINE_NODE"]
    if options.slow and dist.get_rank() == 1 and not options.slow.exists():
        options.slow.write_text(node)
    dist.barrier()
    is_slow = options.slow is not None and options.slow.read_text() == node
    work = WORK_S * (2 if is_slow else 1)
    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.001)
    step = saved_step(options.state)
    while True:
        time.sleep(work)
        optimizer.zero_grad()
        layer(torch.ones(1, 16)).sum().backward()
        for parameter in layer.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
        optimizer.step()
        paceline.step(step)
        if step % SAVE_EVERY == 0:
            if dist.get_rank() == 0:
                save(options.state, step)
            paceline.saved(step)
            ends = torch.tensor(int(dist.get_rank() == 0 and options.enough.exists()))
            dist.broadcast(ends, 0)  # all ranks end after the same step
            if ends.item():
                break
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
