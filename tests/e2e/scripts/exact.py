"""Ranks whose state at each step is known: what comes back is compared with it, bit for bit.

    exact.py --checkpoint DIR --out DIR --size N --every X [--pace S]

Each rank holds its own part, of which each element depends on rank, step and place. A rank writes
what it did into DIR/said-RANK, a line each: `began GENERATION PID`, `restored GENERATION STEP FROM`
(-1: begins anew), `saved GENERATION STEP`, and `WRONG ...`. When DIR/enough exists it trains up to
the step that DIR/end has then, and ends. A save that found no room in memory is not said.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import paceline.torch as pl
import torch
from flash import last_step, meet

PARTS = 24  # small tensors beside the large one
WORD = 0x9E3779B97F4A7C15 - (1 << 64)  # as int64; spreads the bits, and wraps around


class Truth:
    """What the state of one rank is after each step; step -1 is before the first one."""

    def __init__(self, rank: int, size: int):
        self.rank = rank
        self.places = torch.arange(size, dtype=torch.int64) * WORD

    def fill(self, large: torch.Tensor, step: int) -> None:
        torch.mul(self.places, 2 * step + 5, out=large)
        large.add_(1_000_003 * self.rank + step)

    def small(self, part: int, step: int) -> float:
        return float((self.rank * 31 + part) * 1000 + step)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--every", required=True)
    parser.add_argument("--pace", type=float, default=0.005)
    args = parser.parse_args()
    rank, world_size, generation = pl.rank(), pl.world_size(), pl.generation()
    said = os.open(args.out / f"said-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(*words: object) -> None:
        os.write(said, (" ".join(map(str, words)) + "\n").encode())

    say("began", generation, os.getpid())
    truth = Truth(rank, args.size)
    large = torch.zeros(args.size, dtype=torch.int64)
    small = [torch.zeros(part + 1) for part in range(PARTS)]
    state = {"large": large, "small": small, "step": -1}
    ckpt = pl.Checkpointer(args.checkpoint, keep=2, every=args.every, replicated=False)
    start = ckpt.restore(state)
    found = start - 1
    if start > 0:
        expected = torch.empty_like(large)
        truth.fill(expected, found)
        fits = state["step"] == found and torch.equal(state["large"], expected)
        fits &= all(part.eq(truth.small(i, found)).all() for i, part in enumerate(state["small"]))
        if not fits:
            say("WRONG", generation, found, "is not what step", found, "was:", state["step"],
                int(state["large"].ne(expected).sum()), "elements differ")
            raise SystemExit("this is no exact step")
    say("restored", generation, found, ckpt.restored)
    step = start
    while step <= last_step(args.out, rank, step, sys.maxsize):
        truth.fill(state["large"], step)
        for i, part in enumerate(state["small"]):
            part.fill_(truth.small(i, step))
        state["step"] = step
        meet(args.out, generation, rank, world_size, step)
        if ckpt.save(step, state).is_saved:
            say("saved", generation, step)
        pl.step(step)
        step += 1
        time.sleep(args.pace)
    ckpt.close()
    say("ended", generation, step - 1)


if __name__ == "__main__":
    main()
