"""Trains over gloo with timed work; one rank works longer, or waits for its data.

With --enough the job ends soon after that file is there.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    """Each takes its time to read."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.seconds = seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(16)


class Timed(torch.nn.Module):
    """Half of its work is forward, half of it backward."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.seconds = seconds

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds / 2)
        output = self.layer(batch)
        output.register_hook(lambda _gradient: time.sleep(self.seconds / 2))
        return output.sum()


def is_over(enough: Path | None, step: int) -> bool:
    """Whether the step before was the last one. Rank 0 chooses the last one before it begins a
    step, and no rank can end a step that rank 0 has not begun."""
    if enough is None:
        return False
    last = enough.with_suffix(".last")
    if dist.get_rank() == 0 and enough.exists() and not last.exists():
        part = enough.with_suffix(".part")
        part.write_text(str(step + 1))
        part.rename(last)
    return last.exists() and step > int(last.read_text())


def train(options: argparse.Namespace) -> None:
    slow = dist.get_rank() == options.rank
    model: torch.nn.Module = Timed(0.04 * (options.factor if slow else 1))
    if not options.by_hand:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    data = Samples(options.steps, 0.002 + (options.data if slow else 0))
    for step, batch in enumerate(DataLoader(data, batch_size=1)):
        if is_over(options.enough, step):
            break
        optimizer.zero_grad()
        model(batch).backward()
        if options.by_hand:
            for parameter in model.parameters():
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad)
        optimizer.step()
        if options.tells:
            import paceline

            is_bad = options.bad_from <= step < options.bad_from + 25
            paceline.step(step, loss=math.nan if is_bad else 2.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--enough", type=Path)
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--factor", type=float, default=1)
    parser.add_argument("--data", type=float, default=0)
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--tells", action="store_true")
    parser.add_argument("--bad-from", type=int, default=10**9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
