"""Each sample that is read adds one to its key, over all ranks: what is lost or repeated shows.

    counting.py --checkpoint DIR --out DIR --epochs N [--samples N] [--batch N] [--workers N]
                [--slow RANK] [--meet WORLD:STEP] [--hold STEP] [--store STEP]...

OUT/steps gets a line a step and rank, (generation, step, hash of the step's samples),
OUT/counts.json the keys at the end, and how often an evaluation in between saw each of its own
samples. With --slow time is counted and not measured. With --hold nobody goes beyond that step
until there is a file OUT/go, but for one step of a world that is restored there. Each step of
--store is in storage before the next one begins.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from paceline._data.cut import Clock
from torch.utils.data import Dataset


class Numbers(Dataset):
    def __init__(self, count: int, *, first: int = 0, shift: int = 0) -> None:
        self.count, self.first, self.shift = count, first, shift

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return self.first + (index + self.shift) % self.count

    def fingerprint(self) -> list[int]:
        return [self[0], self[self.count - 1]]


def count(batch: torch.Tensor, keys: int) -> torch.Tensor:
    """How often each key is in this step, over all ranks."""
    found = torch.bincount(batch, minlength=keys)
    dist.all_reduce(found)
    return found


def given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--samples", type=int, default=1003)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--shift", type=int, default=0, help="other data of the same length")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--every", default=None)
    parser.add_argument("--slow", type=int, help="this rank sleeps; steps are cut by speed")
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--hold", type=int)
    parser.add_argument("--store", type=int, action="append", default=[])
    parser.add_argument("--meet", default="0:0", help="a smaller world goes no further than this")
    return parser.parse_args()


def main() -> None:
    args = given()
    meet_world, meet_step = map(int, args.meet.split(":"))
    args.out.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    data = pl.ElasticDataset(Numbers(args.samples, shift=args.shift), seed=7, name="train")
    cut = None if args.slow is None else pl.CutBySpeed(every=2)
    loader = pl.ElasticLoader(
        data, global_batch=args.batch, num_workers=args.workers, cut=cut
    )
    now = [0.0]
    if loader.by_speed is not None:
        loader.by_speed.use_clock(Clock(mark=lambda: now[0]))
    held_out = pl.ElasticDataset(Numbers(50, first=args.samples), shuffle=False, name="eval")
    evaluation = pl.ElasticLoader(held_out, global_batch=args.batch, even_steps=False)

    keys = args.samples + 50
    counts = torch.zeros(keys, dtype=torch.int64)
    state = {"counts": counts, "data": loader, "evaluation": evaluation}
    ckpt = pl.Checkpointer(args.checkpoint, keep=3, every=args.every, replicated=True)
    step = ckpt.restore(state)
    counts = state["counts"]
    with (args.out / f"restored-{pl.rank()}").open("a") as file:
        file.write(f"{pl.generation()} {step} {pl.world_size()} {ckpt.restored}\n")
    while loader.epoch < args.epochs:
        for batch in loader:
            now[0] += len(batch) * (0.006 if dist.get_rank() == args.slow else 0.0015)
            loader.worked()
            found = count(batch, keys)
            counts += found
            text = " ".join(map(str, found.nonzero().flatten().tolist()))
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            # By every rank: a step may go on from what another rank than the first has saved of it.
            with (args.out / "steps").open("a") as file:
                file.write(f"{pl.generation()} {step} {digest}\n")
            ticket = ckpt.save(step, state)
            if step in args.store:
                ticket.wait("durable")
            step += 1
            time.sleep(args.pace)
            while args.hold is not None and step >= args.hold and not (args.out / "go").exists():
                time.sleep(0.02)
            while step >= meet_step and pl.world_size() < meet_world:
                time.sleep(0.1)
        seen = [number for batch in evaluation for number in batch.tolist()]
        counts += count(torch.tensor(seen, dtype=torch.int64), keys)
        ckpt.save(step, state)  # the epoch's end is a step of its own: what it did is saved, too
        step += 1
    ckpt.close()
    if dist.get_rank() == 0:
        told = {"counts": counts.tolist(), "steps": step, "world_size": dist.get_world_size(),
                "shares": loader.shares}
        (args.out / "counts.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
