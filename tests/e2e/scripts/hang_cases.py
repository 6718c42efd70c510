"""Trains over gloo without a line of paceline's. One rank does what `--case` says, at one step.

That is step --at or, with --when, the first later one that finds that file. A rank that hangs alone
begins when all others wait for it, because a busy machine may delay each of them. With --enough the
job ends soon after that file is there: all ranks at the same step.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import io
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

# The faults of `paceline drill`, from the source: a verdict names no line of an installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "paceline" / "_drill"))

import faults
from faults import FOREVER, read_fifo
from others import until_others_wait

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
AGAIN = {"order", "shape"}  # mistakes of the script: each start makes them anew


class Script:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank = int(os.environ["RANK"])
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        self.is_culprit = self.rank in options.ranks and (is_first or options.case in AGAIN)
        self.has_begun = False
        self.net = torch.nn.Linear(16, 16)
        self.is_enough = False

    def train(self) -> None:
        self.model = DistributedDataParallel(self.net)
        self.teacher = torch.nn.Linear(16, 16).eval()
        self.groups: list[Any] = [dist.new_group(), dist.new_group()]
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        batches = iter(DataLoader(Batches(self), batch_size=4, num_workers=self.options.workers,
                                  prefetch_factor=1 if self.options.workers else None))
        for step in range(self.options.steps):
            optimizer.zero_grad()
            is_now = self.begins(step)
            loss = self.forward(next(batches), step, is_now)
            loss.backward()
            optimizer.step()
            if is_now and self.options.case in BEHIND_STEP:
                self.let_others_wait()
                BEHIND_STEP[self.options.case](self)
            else:
                self.meet()
            if self.is_enough:
                break

    def begins(self, step: int) -> bool:
        """Whether this is the step of the case. It is one step."""
        if not self.is_culprit or self.has_begun or step < self.options.at:
            return False
        self.has_begun = self.options.when is None or self.options.when.exists()
        return self.has_begun

    def let_others_wait(self) -> None:
        if len(self.options.ranks) == 1:
            until_others_wait()

    def forward(self, batch: torch.Tensor, step: int, is_now: bool) -> torch.Tensor:
        is_late = self.options.case == "tenfold" and self.is_culprit and step >= self.options.at
        time.sleep(0.2 if is_late else 0.02)
        if self.options.case == "teacher":
            with torch.no_grad():
                self.teacher(batch)
        if is_now and self.options.case in IN_FORWARD:
            self.let_others_wait()
            IN_FORWARD[self.options.case](self)
        return self.model(batch).sum()

    def meet(self) -> None:
        votes = torch.ones(8)
        votes[0] += self.options.enough is not None and self.options.enough.exists()
        dist.all_reduce(votes, group=self.groups[0])
        dist.barrier(group=self.groups[1])
        self.is_enough = votes[0] > votes[1]


class Batches(Dataset[torch.Tensor]):
    def __init__(self, script: Script) -> None:
        self.options = script.options
        self.is_culprit = script.is_culprit

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.is_culprit and index == 4 * self.options.at and self.options.case in IN_LOADER:
            IN_LOADER[self.options.case](self.options.path)
        return torch.ones(16)


# ---- in the loader ----
def lock_file(path: Path) -> None:
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def stop_worker(_path: Path) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


IN_LOADER: dict[str, Callable[[Path], None]] = {
    "fifo": read_fifo, "flock": lock_file, "worker": stop_worker}


# ---- in forward ----
def slow(script: Script) -> None:
    time.sleep(script.options.seconds)


def compile_slowly(script: Script) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        time.sleep(script.options.seconds)
        return graph.forward

    torch.compile(lambda batch: batch + 1, backend=backend)(torch.ones(4))


def ask_for_name(script: Script) -> None:
    """Ask the name servers in `--path`. As libraries do, ask again when none answers."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    mounts = [(b"none", b"/", MS_REC | MS_PRIVATE),
              (os.fsencode(script.options.path), b"/etc/resolv.conf", MS_BIND)]
    for source, target, flags in mounts:
        result = libc.mount(source, target, None, ctypes.c_ulong(flags), None)
        assert result == 0, os.strerror(ctypes.get_errno())
    while True:
        with contextlib.suppress(socket.gaierror):
            socket.getaddrinfo("data.example", 80)


IN_FORWARD: dict[str, Callable[[Script], None]] = {
    "stop": lambda _: faults.stop(), "gil": lambda _: faults.hold_the_interpreter_lock(),
    "loop": lambda _: faults.loop_in_c(), "deadlock": lambda _: faults.deadlock(),
    "slow": slow, "teacher": slow, "compile": compile_slowly,
    "answer": lambda script: faults.wait_for_answer(script.options.port),
    "name": ask_for_name}


# ---- behind the optimizer's step, in place of the two collectives ----
def other_order(script: Script) -> None:
    dist.barrier(group=script.groups[1])
    dist.all_reduce(torch.ones(8), group=script.groups[0])


def other_shape(script: Script) -> None:
    dist.all_reduce(torch.ones(script.options.size), group=script.groups[0])
    dist.barrier(group=script.groups[1])


def evaluate(script: Script) -> None:
    script.net.eval()
    script.model.eval()
    end = time.monotonic() + script.options.seconds
    with torch.no_grad():
        script.model(torch.ones(4, 16))
        while time.monotonic() < end:
            pass
    script.model.train()
    script.meet()


class SlowFile(io.BytesIO):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def write(self, data: object) -> int:
        time.sleep(self.seconds)
        self.seconds = 0
        return super().write(data)  # type: ignore[arg-type]


def save(script: Script) -> None:
    torch.save(script.net.state_dict(), SlowFile(script.options.seconds))
    script.meet()


BEHIND_STEP: dict[str, Callable[[Script], None]] = {
    "order": other_order, "shape": other_shape, "evaluate": evaluate, "save": save}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", default="none")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1])
    parser.add_argument("--at", type=int, default=30)
    parser.add_argument("--when", type=Path)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--enough", type=Path)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--port", type=int)
    parser.add_argument("--size", type=int)
    script = Script(parser.parse_args())
    if script.options.case == "absent" and script.is_culprit:
        time.sleep(FOREVER)
    dist.init_process_group("gloo")
    script.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
