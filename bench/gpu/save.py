"""What a save of tensors on a GPU costs the training, against the copy's limit and two peers.

    .venv/bin/python -m bench.gpu.save --bytes 2147483648 --rounds 5 [--overlap] [--peers]

One process, no launcher. In each round, one after the other: a copy of all bytes to pinned memory
(the limit), our save, and with --peers torch.save to /dev/shm and DCP's async_save to /dev/shm.
`stall` is how long the training's thread was held, `whole` until the save was complete in memory.
`held` is the GPU's time from the save's begin to the end of the optimizer's step behind it.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from paceline.torch import Checkpointer
from torch.distributed.checkpoint.state_dict_saver import async_save

from bench.harness import Samples, machine

TENSORS = 128


def synchronized() -> float:
    torch.cuda.synchronize()
    return time.monotonic()


class Subject:
    """A model of equal matrices, whose gradients are there, so that an optimizer can step."""

    def __init__(self, size: int) -> None:
        count = size // TENSORS // 2  # bfloat16
        weights = [torch.randn(count, device="cuda").bfloat16() for _ in range(TENSORS)]
        self.model = torch.nn.ParameterList(weights)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.state = {"model": self.model, "optimizer": self.optimizer}
        for weight in self.model:
            weight.grad = torch.zeros_like(weight)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach() for name, tensor in self.model.named_parameters()}


def copy_limit(subject: Subject, pinned: torch.Tensor) -> float:
    """All tensors to memory that is pinned and warm."""
    began = synchronized()
    at = 0
    for weight in subject.model:
        flat = weight.detach().view(torch.uint8)
        pinned[at : at + flat.numel()].copy_(flat, non_blocking=True)
        at += flat.numel()
    return synchronized() - began


def ours(subject: Subject, ckpt: Checkpointer, step: int) -> dict[str, float]:
    before, behind = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began = synchronized()
    before.record()
    ticket = ckpt.save(step, subject.state)
    stall = time.monotonic() - began
    subject.optimizer.step()
    behind.record()
    stepped = time.monotonic() - began
    ticket.wait("memory")
    whole = time.monotonic() - began
    torch.cuda.synchronize()
    held = before.elapsed_time(behind) / 1e3
    return {"stall": stall, "stepped": stepped, "whole": whole, "held": held}


def peers(subject: Subject, folder: Path) -> dict[str, Callable[[], dict[str, float]]]:
    def saved() -> dict[str, float]:
        began = synchronized()
        torch.save(subject.tensors(), folder / "torch.pt")
        stall = time.monotonic() - began
        return {"stall": stall, "whole": stall}

    def dcp() -> dict[str, float]:
        shutil.rmtree(folder / "dcp", ignore_errors=True)
        began = synchronized()
        saving: Any = async_save(subject.tensors(), checkpoint_id=folder / "dcp", no_dist=True)
        stall = time.monotonic() - began
        saving.result()
        return {"stall": stall, "whole": time.monotonic() - began}

    return {"torch.save": saved, "dcp.async_save": dcp}


def main() -> None:
    options = argparse.ArgumentParser(description="Saves of tensors on a GPU.")
    options.add_argument("--bytes", type=int, default=2 << 30)
    options.add_argument("--rounds", type=int, default=5, help="after the first two")
    options.add_argument("--overlap", action="store_true")
    options.add_argument("--peers", action="store_true")
    args = options.parse_args()
    where = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "bytes": args.bytes}
    print(machine(), json.dumps(where), file=sys.stderr)
    samples = Samples("gpu_save")
    folder = Path(tempfile.mkdtemp(prefix="paceline-bench-", dir="/dev/shm"))
    disk = Path(tempfile.mkdtemp(prefix="paceline-bench-"))
    subject = Subject(args.bytes)
    pinned = torch.empty(args.bytes, dtype=torch.uint8, pin_memory=True)
    name = "paceline overlap" if args.overlap else "paceline"
    # Storage is no part of this: no step of it is due.
    ckpt = Checkpointer(disk / "c", overlap=args.overlap, every="1h")
    began = time.monotonic()
    ckpt.restore(subject.state)
    samples.add(f"{name} restore of nothing", time.monotonic() - began, **where)
    others = peers(subject, folder) if args.peers else {}
    for number in range(args.rounds + 2):
        more = {**where, "round": number}
        samples.add("copy limit", copy_limit(subject, pinned), **more)
        took = ours(subject, ckpt, number)
        time.sleep(2 if number < 2 else 0)  # until the slots are pinned
        samples.add(name, took.pop("stall"), **took, **more)
        for peer, save in others.items():
            took = save()
            samples.add(peer, took.pop("stall"), **took, **more)
    print(samples.summary("copy limit", name, *others))
    shutil.rmtree(folder)
    sys.stdout.flush()
    ckpt.close()
    shutil.rmtree(disk)


if __name__ == "__main__":
    main()
