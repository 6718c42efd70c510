"""Trains over gloo, with a loader, evaluations and saves that take a known time at least.

After the first step of each world the script waits for the file go-N, N restarts after the first
world: until it is known that the world runs, all time is its start. Then the script counts what it
sleeps, in seconds, and writes that to rankR-N.json. With --fail STEP rank 0 raises after that step
of the first world.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from paceline.torch import Checkpointer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RESTARTS = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
EVERY = 10  # steps between two evaluations, and between two saves
slept = {"data": 0.0, "evaluation": 0.0, "checkpoint": 0.0}


def rest(seconds: float, what: str) -> None:
    time.sleep(seconds)
    slept[what] += seconds


class Slow(Dataset[torch.Tensor]):
    """Each sample takes its time to read."""

    def __init__(self, count: int, seconds: float, what: str) -> None:
        self.count = count
        self.seconds = seconds
        self.what = what

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        rest(self.seconds, self.what)
        return torch.ones(16)


class SlowFile(io.BytesIO):
    """Memory behind a slow link: the first write takes long."""

    def write(self, content: Any) -> int:
        if self.tell() == 0:
            rest(0.2, "checkpoint")
        return super().write(content)


def hold(go: Path) -> None:
    while not go.exists():
        time.sleep(0.01)
    slept.update(dict.fromkeys(slept, 0.0))


def evaluate(model: torch.nn.Module) -> None:
    model.eval()
    with torch.no_grad():
        for batch in DataLoader(Slow(10, 0.03, "evaluation"), batch_size=1):
            model(batch)
    model.train()


def train(options: argparse.Namespace) -> None:
    model = DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    state = {"model": model}
    checkpointer = Checkpointer(options.times / "checkpoints", replicated=True)
    first = checkpointer.restore(state)
    data = Slow(options.steps - first, 0.02, "data")
    for step, batch in enumerate(DataLoader(data, batch_size=1), start=first):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        checkpointer.save(step, state)
        if step == first:
            hold(options.times / f"go-{RESTARTS}")
        if (step + 1) % EVERY == 0:
            evaluate(model)
            torch.save(model.state_dict(), SlowFile())
        if step == options.fail and RESTARTS == 0 and dist.get_rank() == 0:
            raise ValueError("bad batch")
    checkpointer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--times", type=Path, required=True)
    parser.add_argument("--fail", type=int, default=-1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(options)
    name = f"rank{dist.get_rank()}-{RESTARTS}.json"
    (options.times / name).write_text(json.dumps(slept))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
