"""A small byte-level transformer, trained with DDP on the source of Python's standard library.

The point of this script is what it saves. After any fault that keeps the world size, the final
weights are bit-identical with those of an undisturbed run, because

  * model, optimizer, random states of every rank and the position in the data are saved together,
    after every step, so that a restart goes on from one whole step;
  * what is read in a step depends only on (seed, step), and what a rank reads of it only on the
    world, so that a step that is done again is the same step, and no sample is lost or repeated;
  * one backward is run and thrown away before the state is loaded. DDP reduces gradients in one
    bucket order in its first iteration and in another one ever after; without it, the first step
    after a restart would add the same numbers in another order and differ in the last bits.

docs/guides/determinism.md tells the whole story.

    paceline run --nproc-per-node 2 train_bytes.py --steps 100

With --torch-save it is a plain torchrun script that saves now and then by itself:

    torchrun --nproc-per-node 2 train_bytes.py --steps 100 --torch-save state.pt
"""

import argparse
import hashlib
import os
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

try:
    import paceline.torch as pl
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


class Windows(Dataset[Tensor]):
    """The text in windows that overlap by the one byte that is only predicted."""

    def __init__(self, text: Tensor) -> None:
        self.text = text

    def __len__(self) -> int:
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, index: int) -> Tensor:
        return self.text[index * CONTEXT : (index + 1) * CONTEXT + 1].long()


def plain_batches(windows: Windows, args: argparse.Namespace) -> Iterator[Tensor]:
    """Without paceline: each rank draws its windows by (seed, step, rank), again and again."""
    each = max(1, args.batch // dist.get_world_size())
    for step in range(args.start, args.steps):
        choice = random.Random(f"{args.seed}/{step}/{dist.get_rank()}")
        yield torch.stack([windows[choice.randrange(len(windows))] for _ in range(each)])


class Elastic:
    """With paceline: the batches of a loader, and a line a step of what this rank read."""

    def __init__(self, windows: Windows, args: argparse.Namespace) -> None:
        assert pl, "without paceline the script needs --torch-save"
        data = pl.ElasticDataset(windows, shuffle=True, seed=args.seed)
        self.loader = pl.ElasticLoader(data, global_batch=args.batch, num_workers=args.workers)
        self.trace = args.trace

    def batches(self) -> Iterator[Tensor]:
        while True:  # epoch after epoch
            yield from self.loader

    def note(self, step: int) -> None:
        if pl and self.trace:
            self.trace.mkdir(parents=True, exist_ok=True)
            line = [pl.generation(), step, self.loader.epoch, *self.loader.indices]
            with (self.trace / f"rank{pl.rank()}").open("a") as file:
                file.write(" ".join(map(str, line)) + "\n")


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


class Flash:
    """Every step is saved, by paceline."""

    def __init__(
        self, directory: Path, model: nn.Module, optimizer: torch.optim.Optimizer, data: Elastic
    ) -> None:
        assert pl
        self.checkpointer = pl.Checkpointer(directory)
        self.state = {"model": model, "optimizer": optimizer, "data": data.loader}

    def restore(self) -> int:
        """The steps that are done."""
        return self.checkpointer.restore(self.state)

    def save(self, done: int, loss: float) -> None:
        if pl:
            pl.step(done - 1, loss=loss)
        self.checkpointer.save(done - 1, self.state)

    def close(self) -> None:
        self.checkpointer.close()


class TorchSave:
    """Rank 0 saves every few steps, by torch.save and a rename."""

    def __init__(
        self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, every: int
    ) -> None:
        self.path, self.model, self.optimizer, self.every = path, model, optimizer, every
        path.parent.mkdir(parents=True, exist_ok=True)

    def restore(self) -> int:
        if not self.path.exists():
            return 0
        state = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        # This rank's own state; in a world of another size, the nearest thing to it.
        mine = state["random"][dist.get_rank() % len(state["random"])]
        random.setstate(mine["python"])
        torch.set_rng_state(mine["torch"])
        return state["step"]

    def save(self, done: int, loss: float) -> None:
        if pl:
            pl.step(done, loss=loss)
        if done % self.every == 0:
            self._write(done)

    def close(self) -> None:
        pass

    def _write(self, done: int) -> None:
        mine = {"python": random.getstate(), "torch": torch.get_rng_state()}
        is_first = dist.get_rank() == 0
        states: list[Any] | None = [None] * dist.get_world_size() if is_first else None
        dist.gather_object(mine, states)
        if not is_first:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": states,
            "step": done,
        }
        # A reader sees the old one or the new one, both whole.
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)  # the rename itself must survive a power cut, too
        os.close(folder)
        if pl:
            pl.saved(done)


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
    windows = Windows(read_text(args.text_bytes))
    elastic = None if args.torch_save else Elastic(windows, args)
    if args.warm_up:
        # Discarded: from here on DDP uses its final bucket order.
        model(torch.stack([windows[i] for i in range(8)])).backward()
        optimizer.zero_grad()

    random.seed(f"{args.seed}/{rank}")
    torch.manual_seed(args.seed + 1 + rank)  # dropout differs from rank to rank
    keeper = (
        Flash(args.checkpoint, model, optimizer, elastic)
        if elastic
        else TorchSave(args.torch_save, inner, optimizer, every=args.save_every)
    )
    args.start = keeper.restore()  # steps that are done
    if rank == 0 and args.start:
        print(f"resumed at step {args.start}", flush=True)

    batches = elastic.batches() if elastic else plain_batches(windows, args)
    for step, batch in zip(range(args.start, args.steps), batches, strict=False):
        loss = model(batch)
        # Shares of the last step of an epoch may differ by a sample; then so do their weights.
        (loss * elastic.loader.weight if elastic else loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        done = step + 1
        if elastic:
            elastic.note(step)
        keeper.save(done, loss.item())
        if rank == 0 and (done % args.print_every == 0 or done == args.steps):
            print(f"step {done} loss {loss.item():.6f}", flush=True)
    keeper.close()

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
    parser.add_argument("--batch", type=int, default=48, help="windows a step, over all ranks")
    parser.add_argument("--workers", type=int, default=0, help="processes that read, a rank")
    parser.add_argument("--trace", type=Path, help="a folder for what each rank read in each step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--text-bytes", type=int, default=1 << 18)
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("train_bytes"), help="a directory all hosts share"
    )
    parser.add_argument("--torch-save", type=Path, help="save to this file, as plain scripts do")
    parser.add_argument("--save-every", type=int, default=5, help="steps, with --torch-save")
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
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
