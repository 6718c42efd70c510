"""Trains over gloo without a line of paceline's, and hangs where it is told to.

    hangs.py [--steps N] [--rank R] [--skip-at STEP] [--stop-at STEP]
             [--pause-at STEP --until FILE] [--raise-at STEP --until FILE]

At --stop-at the rank stops itself by SIGSTOP while others wait for it, in the first world only. It
skips a call, too, only when all others are in it. At --raise-at it raises, in the first world only,
and a thread of its own lives on until that file is there.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "paceline" / "_drill"))

from others import until_others_wait


def forward(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    return model(batch).sum()


def until_there(file: Path) -> None:
    while not file.exists():
        time.sleep(0.02)


def train(options: argparse.Namespace) -> None:
    model = DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    culprit = dist.get_rank() == options.rank
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    for step in range(options.steps):
        optimizer.zero_grad()
        if culprit and is_first and step == options.stop_at:
            until_others_wait()
            os.kill(os.getpid(), signal.SIGSTOP)
        forward(model, torch.ones(4, 16)).backward()
        optimizer.step()
        if culprit and step == options.pause_at:
            until_there(options.until)
        if culprit and is_first and step == options.raise_at:
            threading.Thread(target=until_there, args=(options.until,)).start()
            raise ValueError("bad batch")
        if culprit and step == options.skip_at:
            until_others_wait()
        else:
            dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--skip-at", type=int, default=-1)
    parser.add_argument("--pause-at", type=int, default=-1)
    parser.add_argument("--stop-at", type=int, default=-1)
    parser.add_argument("--raise-at", type=int, default=-1)
    parser.add_argument("--until", type=Path)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
