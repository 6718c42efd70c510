"""A small byte-level transformer, trained with DDP on the source of Python's standard library.

The point of this script is what it saves. After any fault that keeps the world size, the final
weights are bit-identical with those of an undisturbed run, because

  * model, optimizer, random states of every rank and the position in the data are saved together
    and replaced atomically, so that a restart goes on from one whole step;
  * what a rank reads in a step depends only on (seed, step, rank), so that a step that is done
    again is the same step;
  * one backward is run and thrown away before the state is loaded. DDP reduces gradients in one
    bucket order in its first iteration and in another one ever after; without it, the first step
    after a restart would add the same numbers in another order and differ in the last bits.

docs/guides/determinism.md tells the whole story. The script is a plain torchrun script:

    torchrun --nproc-per-node 2 train_bytes.py --steps 100
    paceline run --nproc-per-node 2 train_bytes.py --steps 100

The two lines that mention paceline are optional: they show the loss and the saved step in its
live line.
"""

import argparse
import hashlib
import os
import random
import sysconfig
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

try:
    import paceline as pl
except ImportError:  # plain torchrun
    pl = None

CONTEXT = 64  # bytes of text that the model sees


def read_text(size: int) -> Tensor:
    """The first `size` bytes of the standard library's source, in the order of the file names."""
    root = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(root.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= size:
            break
    return torch.frombuffer(text[:size], dtype=torch.uint8)


def read_batch(text: Tensor, *, seed: int, step: int, rank: int, batch: int) -> Tensor:
    """What one rank reads in one step: a function of (seed, step, rank) and of nothing else."""
    choice = random.Random(f"{seed}/{step}/{rank}")
    starts = [choice.randrange(len(text) - CONTEXT) for _ in range(batch)]
    return torch.stack([text[start : start + CONTEXT + 1] for start in starts]).long()


class Block(nn.Module):
    """Attention over the past, then a small network, both added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_attention, self.norm_mix = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        attend = self.attend(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = attend.permute(2, 0, 3, 1, 4)
        past = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(past.transpose(1, 2).reshape(batch, length, width))
        return x + self.mix(self.norm_mix(x))


class ByteModel(nn.Module):
    """Predicts the next byte at every position; gives the mean loss."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.byte, self.place = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout=0.1) for _ in range(layers)))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, window: Tensor) -> Tensor:
        seen, wanted = window[:, :-1], window[:, 1:]
        x = self.byte(seen) + self.place(torch.arange(CONTEXT))
        return functional.cross_entropy(self.out(self.blocks(x)).flatten(0, 1), wanted.flatten())


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint in one go: a reader sees the old one or the new one, both whole."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the rename itself must survive a power cut, too
    os.close(folder)


def gather_random_states() -> list[Any] | None:
    """The random states of all ranks, at rank 0."""
    mine = {"python": random.getstate(), "torch": torch.get_rng_state()}
    gathered: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, gathered)
    return gathered


def restore_random_state(states: list[Any]) -> None:
    """This rank's own state; in a world of another size, the nearest thing to it."""
    mine = states[dist.get_rank() % len(states)]
    random.setstate(mine["python"])
    torch.set_rng_state(mine["torch"])


def digest(model: nn.Module) -> str:
    """One hash over the names and the exact bits of all parameters."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(value.contiguous().numpy().tobytes())
    return total.hexdigest()


def train(args: argparse.Namespace) -> None:
    rank = dist.get_rank()
    torch.manual_seed(args.seed)  # the same first weights in every rank
    inner = ByteModel()
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    text = read_text(args.text_bytes)

    def loss_of(step: int) -> Tensor:
        window = read_batch(text, seed=args.seed, step=step, rank=rank, batch=args.batch)
        return model(window)

    if args.warm_up:
        loss_of(0).backward()  # discarded: from here on DDP uses its final bucket order
        optimizer.zero_grad()

    step = 0  # steps that are done; also the position in the data
    random.seed(f"{args.seed}/{rank}")
    torch.manual_seed(args.seed + 1 + rank)  # dropout differs from rank to rank
    if args.checkpoint.exists():
        state = torch.load(args.checkpoint, weights_only=True)
        inner.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        restore_random_state(state["random"])
        step = state["step"]
        if rank == 0:
            print(f"resumed at step {step}", flush=True)

    while step < args.steps:
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if pl:
            pl.step(step, loss=loss.item())
        if rank == 0 and (step % args.print_every == 0 or step == args.steps):
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        if step % args.save_every == 0 or step == args.steps:
            states = gather_random_states()
            if rank == 0:
                save(
                    args.checkpoint,
                    {
                        "model": inner.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "random": states,
                        "step": step,
                    },
                )
                if pl:
                    pl.saved(step)

    if rank == 0:
        print(f"weights sha256 {digest(inner)}", flush=True)
        if args.digest:
            args.digest.write_text(digest(inner) + "\n")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a byte-level transformer on the standard library."
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="windows of text a rank and step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--text-bytes", type=int, default=4 << 20)
    parser.add_argument("--checkpoint", type=Path, default=Path("train_bytes.pt"))
    parser.add_argument("--save-every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--print-every", type=int, default=5)
    parser.add_argument("--digest", type=Path, help="write a hash of the final weights here")
    parser.add_argument(
        "--no-warm-up",
        dest="warm_up",
        action="store_false",
        help="leave out the discarded backward, to see that the bits then differ",
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
