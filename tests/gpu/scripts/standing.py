"""Trains over gloo with tensors of a GPU; rank 1 stands still at step 30 of its first start.

    standing.py --case none|kernel|synchronize|memory [--device D] [--steps N]

kernel: a kernel that never ends, and the loss is read. synchronize: the same, and the script waits
for the GPU. memory: more than the GPU has.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

CYCLES = 10**15  # days


def stand_still(case: str, device: torch.device) -> None:
    if case == "kernel":
        torch.cuda._sleep(CYCLES)
        torch.ones(1, device=device).item()
    elif case == "synchronize":
        torch.cuda._sleep(CYCLES)
        torch.cuda.synchronize()
    elif case == "memory":
        torch.empty(1 << 46, dtype=torch.uint8, device=device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", default="none")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    device = torch.device(options.device)
    dist.init_process_group("gloo")
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    is_culprit = dist.get_rank() == dist.get_world_size() - 1 and is_first
    model = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.ones(4 * options.steps, 64)
    for step, batch in enumerate(DataLoader(rows, batch_size=4)):
        optimizer.zero_grad()
        time.sleep(0.02)
        loss = model(batch.to(device)).sum()
        if is_culprit and step == 30:
            stand_still(options.case, device)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
