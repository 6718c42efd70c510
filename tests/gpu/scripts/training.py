"""Trains on a GPU, deterministically, with every kind of state that a restart has to bring back.

    training.py --checkpoint DIR --out DIR --steps N [--device D] [--amp TYPE] [--overlap]
                [--wrap ddp|fsdp] [--backend gloo|nccl] [--pace S]

Batches come from the GPU's random numbers, so a restart without them ends with other weights. Each
start appends a line of JSON to OUT/starts-RANK, and OUT/digest-RANK has the digest of the end.
"""

import argparse
import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

# cuBLAS reads it when it is used first; without it torch refuses to be deterministic.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import paceline.torch as pl
import torch
import torch.distributed as dist


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--amp", default="")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--wrap", default="")
    parser.add_argument("--backend", default="")
    parser.add_argument("--pace", type=float, default=0.02)
    return parser.parse_args()


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 16 * 16, 256),
        torch.nn.LayerNorm(256),
        torch.nn.GELU(),
        torch.nn.Linear(256, 10),
    )


def wrapped(model: torch.nn.Module, how: str, device: torch.device) -> torch.nn.Module:
    if how == "ddp":
        ids = [device] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    return model


class Training:
    def __init__(self, args: argparse.Namespace) -> None:
        self.device = torch.device(args.device)
        self.amp = getattr(torch, args.amp) if args.amp else None
        torch.manual_seed(1)
        self.model = wrapped(make_model().to(self.device), args.wrap, self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler(
            args.device, enabled=self.amp is torch.float16, growth_interval=7
        )
        self.state = {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}
        self.seen = torch.zeros((), dtype=torch.float64, device=self.device)
        self.state["seen"] = self.seen

    def loss(self) -> torch.Tensor:
        images = torch.randn(16, 3, 16, 16, device=self.device)
        labels = torch.randint(0, 10, (16,), device=self.device)
        with torch.autocast(self.device.type, self.amp, enabled=self.amp is not None):
            return torch.nn.functional.cross_entropy(self.model(images), labels)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.loss()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.seen += loss.detach()  # a loose tensor, changed by a kernel of its own

    def digest(self) -> dict[str, Any]:
        def of(tensor: torch.Tensor) -> str:
            full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
            data = full.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            return hashlib.sha256(data.tobytes()).hexdigest()

        tensors = dict(self.model.state_dict())
        for number, inner in enumerate(self.optimizer.state.values()):
            tensors |= {f"{number}.{name}": value for name, value in inner.items()}
        tensors["seen"] = self.seen
        digests = {name: of(tensor) for name, tensor in tensors.items()}
        return {**digests, "scaler": str(self.scaler.state_dict())}


def about_start() -> dict[str, Any]:
    """How this process began: a fork of the starter shows that starter as its parent."""
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "is_fork": b"paceline._starter" in parent,
        "is_bad_fork": torch.cuda._is_in_bad_fork(),
        "is_cuda_there": torch.cuda.is_initialized(),
    }


def main() -> None:
    args = parse()
    started = about_start()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    with contextlib.ExitStack() as stack:
        if args.backend:
            dist.init_process_group(args.backend)
            stack.callback(dist.destroy_process_group)
        rank = pl.rank()
        training = Training(args)
        if args.wrap == "ddp":  # its first backward pass sums in another order
            training.loss().backward()
            training.optimizer.zero_grad()
        ckpt = pl.Checkpointer(args.checkpoint, overlap=args.overlap)
        first = ckpt.restore(training.state)
        training.seen = training.state["seen"]
        with (args.out / f"starts-{rank}").open("a") as file:
            print(json.dumps({**started, "first": first, "restored": ckpt.restored}), file=file)
        for step in range(first, args.steps):
            training.step()
            ckpt.save(step, training.state)
            pl.step(step)
            time.sleep(args.pace)
        ckpt.close()
        (args.out / f"digest-{rank}").write_text(json.dumps(training.digest()))


if __name__ == "__main__":
    main()
