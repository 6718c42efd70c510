"""A training job whose ranks use more and more memory.

    leaking.py --dir DIR --steps N [--grow MIB] [--to MIB] [--jump MIB]

Each step takes 50 ms. Each rank makes `--grow` MiB a second until it holds `--to` MiB. It holds
`--jump` MiB more from the moment that there is a file DIR/jump. Every rank appends its generation
to DIR/rank<r>.worlds at its first step.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import paceline as pl

PACE = 0.05


def touched(mib: float) -> bytearray:
    """Memory whose pages are there, and not only promised."""
    held = bytearray(int(mib * (1 << 20)))
    held[::4096] = b"x" * len(held[::4096])
    return held


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--grow", type=float, default=0)
    parser.add_argument("--to", type=float, default=0)
    parser.add_argument("--jump", type=float, default=0)
    args = parser.parse_args()
    held: list[bytearray] = []
    grown = 0.0
    has_jumped = False
    rank = os.environ["RANK"]
    for step in range(args.steps):
        time.sleep(PACE)
        if grown < args.to:
            held.append(touched(args.grow * PACE))
            grown += args.grow * PACE
        if args.jump and not has_jumped and (args.dir / "jump").exists():
            has_jumped = True
            held.append(touched(args.jump))
        if step == 0:
            with open(args.dir / f"rank{rank}.worlds", "a") as worlds:
                worlds.write(os.environ["PACELINE_GENERATION"] + "\n")
        pl.step(step)
        if (args.dir / "enough").exists():
            return


if __name__ == "__main__":
    main()
