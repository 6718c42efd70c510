"""The small job of `paceline drill`: it trains over gloo, and one rank breaks as `--kind` says.

That happens once, in the first world, while the other ranks wait for that rank. Before it the rank
writes the time into the file DIR/struck. The job ends well when the file DIR/enough is there, and
after ten minutes in any case: the command that wanted it may have been killed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from faults import IN_STEP, read_forever
from others import until_others_wait
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BATCH = 4
VOTES = 8
BATCHES = 10**6
WORK_S = 0.02  # of a step
SLOW_WORK_S = 0.06
LONGEST_S = 600.0


def tell_strike(directory: Path) -> None:
    """Write when it happens, in nanoseconds since 1970 as the journal has them."""
    part = directory / "struck.part"
    part.write_text(str(time.time_ns()))
    part.rename(directory / "struck")


class Batches(Dataset[torch.Tensor]):
    """Each is of ones, and in a rank that breaks one of them is not."""

    def __init__(self, options: argparse.Namespace, is_culprit: bool) -> None:
        self.options = options
        self.bad = BATCH * options.at if is_culprit else -1

    def __len__(self) -> int:
        return BATCH * BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad and self.options.kind in IN_LOADER:
            tell_strike(self.options.dir)
            IN_LOADER[self.options.kind](self.options.dir)
        if index == self.bad and self.options.kind == "nan_loss":
            return torch.full((16,), math.nan)
        return torch.ones(16)


class Job:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.end = time.monotonic() + LONGEST_S
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        self.is_culprit = is_first and dist.get_rank() == options.rank
        self.model = DistributedDataParallel(torch.nn.Linear(16, 16))
        # A barrier that is skipped has an all_reduce of the same group behind it.
        last = dist.group.WORLD if options.kind == "skip_call" else dist.new_group()
        self.groups = [dist.new_group(), last]

    def train(self) -> None:
        kind = self.options.kind
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        workers = 1 if kind in WITH_WORKER else 0
        batches = iter(DataLoader(Batches(self.options, self.is_culprit), batch_size=BATCH,
                                  num_workers=workers, prefetch_factor=1 if workers else None))
        for step in itertools.count():
            optimizer.zero_grad()
            is_now = self.is_culprit and step == self.options.at
            loss = self.forward(next(batches), step, is_now)
            loss.backward()
            optimizer.step()
            if kind == "nan_loss":
                self.tell_loss(step, loss)
            if is_now and kind in IN_CALLS:
                self.strike()
                IN_CALLS[kind](self)
            elif self.meet():
                break

    def forward(self, batch: torch.Tensor, step: int, is_now: bool) -> torch.Tensor:
        kind = self.options.kind
        is_slow = kind == "slow_rank" and self.is_culprit and step >= self.options.at
        time.sleep(SLOW_WORK_S if is_slow else WORK_S)
        if is_now and kind in IN_STEP:
            self.strike()
            IN_STEP[kind]()
        if is_now and kind in ("slow_rank", "nan_loss"):
            tell_strike(self.options.dir)
        return self.model(batch).sum()

    def strike(self) -> None:
        until_others_wait()
        tell_strike(self.options.dir)

    def tell_loss(self, step: int, loss: torch.Tensor) -> None:
        import paceline

        paceline.step(step, loss=float(loss))

    def meet(self) -> bool:
        """All ranks agree on whether that was the last step."""
        votes = torch.ones(VOTES)
        votes[0] += (self.options.dir / "enough").exists() or time.monotonic() > self.end
        dist.all_reduce(votes, group=self.groups[0])
        dist.barrier(group=self.groups[1])
        return bool(votes[0] > votes[1])


# ---- while a batch is read ----
def stop_worker(_directory: Path) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def end_worker(_directory: Path) -> None:
    os._exit(1)


def read_blocked(directory: Path) -> None:
    read_forever(directory / "shard.fifo")


IN_LOADER: dict[str, Callable[[Path], None]] = {
    "loader_stall": stop_worker, "loader_exit": end_worker, "blocked_read": read_blocked}
WITH_WORKER = {"loader_stall", "loader_exit"}


# ---- in place of the two collectives behind a step ----
def skip_call(job: Job) -> None:
    """The next step calls all_reduce for its gradients, where the others are in a barrier."""
    dist.all_reduce(torch.ones(VOTES), group=job.groups[0])


def call_with_other_shape(job: Job) -> None:
    dist.all_reduce(torch.ones(VOTES - 1), group=job.groups[0])
    dist.barrier(group=job.groups[1])


def call_in_other_order(job: Job) -> None:
    dist.barrier(group=job.groups[1])
    dist.all_reduce(torch.ones(VOTES), group=job.groups[0])


IN_CALLS: dict[str, Callable[[Job], None]] = {
    "skip_call": skip_call, "wrong_shape": call_with_other_shape,
    "wrong_order": call_in_other_order}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--at", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Job(options).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
