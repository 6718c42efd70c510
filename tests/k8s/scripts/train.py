"""Trains a small model with gloo, and writes a digest of its weights at the end.

    train.py --checkpoint DIR --out DIR --steps N [--pace S]

The batches depend on rank and step alone. So the digest is the same for every run with as many
ranks, whatever was lost on the way. Rank 0 writes DIR/step after each step and a line of DIR/steps,
and DIR/digest in the end. If there is a file DIR/pace, it has the pause after each step instead of
--pace, so that a job can be kept from its end until the test has done its part.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from torch import nn

WIDTH = 64


def batch_of(rank: int, step: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(1_000_003 * step + rank)
    return torch.randn(16, WIDTH, generator=chance)


def average_gradients(model: nn.Module) -> None:
    """Adds the gradients in the order of the ranks, so that all rounding is known.

    DistributedDataParallel lays its buckets out anew after a process's first step. With three ranks
    it then adds in another order, and a run that was restarted has other weights, also without
    paceline.
    """
    mine = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    gathered = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, mine)
    mean = torch.stack(gathered).sum(0) / len(gathered)
    taken = 0
    for weight in model.parameters():
        weight.grad.copy_(mean[taken:taken + weight.numel()].view_as(weight))
        taken += weight.numel()


def digest_of(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def replace_text(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def pause_of(path: Path, given: float) -> float:
    try:
        return float(path.read_text())
    except FileNotFoundError:
        return given


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pace", type=float, default=0.02)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    state = {"model": model, "optimizer": optimizer}
    ckpt = pl.Checkpointer(args.checkpoint, every=20)
    start = ckpt.restore(state)
    print(f"rank {rank} begins at step {start}", flush=True)
    for step in range(start, args.steps):
        batch = batch_of(rank, step)
        loss = (model(batch) - batch.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        ckpt.save(step, state)
        pl.step(step)
        if rank == 0:
            replace_text(args.out / "step", str(step))
            with open(args.out / "steps", "a") as steps:
                steps.write(f"{step}\n")
        time.sleep(pause_of(args.out / "pace", args.pace))
    ckpt.close()
    if rank == 0:
        replace_text(args.out / "digest", digest_of(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
