"""FSDP2 on the CPU: every rank holds a slice of the weights, of the gradients and of the optimizer.

    torchrun --nproc-per-node 2 train_fsdp2.py --steps 40
    paceline run --nproc-per-node 2 train_fsdp2.py --steps 40

Each checkpoint is a folder that torch.distributed.checkpoint writes, one file a rank. A folder is
named for its step and becomes the newest one only when a small pointer file is replaced, after all
ranks have written; a restart in the middle of a save reads the one before.
"""

import argparse
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

WIDTH = 64


def make_model() -> nn.Sequential:
    """A plain network; every linear layer is a unit of sharding, and so is the whole."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return model


def read_batch(*, seed: int, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Points and the value of a fixed function there; depends on (seed, step, rank) only."""
    source = torch.Generator().manual_seed(seed * 1_000_003 + step * 1_009 + rank)
    points = torch.randn(32, WIDTH, generator=source)
    return points, points.square().mean(1, keepdim=True)


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    weights, moments = get_state_dict(model, optimizer)
    state_dict_saver.save(
        {"model": weights, "optimizer": moments}, checkpoint_id=folder / str(step)
    )
    dist.barrier()  # every rank has written
    if dist.get_rank() != 0:
        return
    part = folder / "newest.part"
    part.write_text(str(step))
    descriptor = os.open(part, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    part.replace(folder / "newest")
    for old in folder.iterdir():
        if old.name.isdigit() and int(old.name) < step:
            shutil.rmtree(old)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Read the newest checkpoint, if there is one; give the number of steps that are done."""
    newest = folder / "newest"
    if not newest.exists():
        return 0
    step = int(newest.read_text())
    weights, moments = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": weights, "optimizer": moments}
    state_dict_loader.load(state, checkpoint_id=folder / str(step))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    return step


def digest(model: nn.Module) -> str:
    """One hash over the names and the exact bits of all parameters, put together again."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        total.update(name.encode())
        total.update(whole.contiguous().numpy().tobytes())
    return total.hexdigest()


def train(args: argparse.Namespace) -> None:
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step = load(args.checkpoint, model, optimizer)
    if rank == 0 and step:
        print(f"resumed at step {step}", flush=True)
    while step < args.steps:
        points, values = read_batch(seed=args.seed, step=step, rank=rank)
        loss = nn.functional.mse_loss(model(points), values)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        if step % args.save_every == 0 or step == args.steps:
            save(args.checkpoint, model, optimizer, step)
    final = digest(model)
    if rank == 0:
        print(f"weights sha256 {final}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="FSDP2 on the CPU.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, default=Path("train_fsdp2"))
    parser.add_argument("--save-every", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    args.checkpoint.mkdir(parents=True, exist_ok=True)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
