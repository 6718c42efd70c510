"""The smallest job: no torch, every rank counts steps and says hello.

    paceline run --nproc-per-node 4 hello.py --steps 20
    paceline run --nproc-per-node 4 hello.py --steps 20 --fail-at 7 --fail-rank 2

It shows what a rank is told, and it is quick enough to try faults by hand: with `--fail-at` one
rank raises at that step, once. The count is kept in a file, so a restart goes on from there.
"""

import argparse
import os
import time
from pathlib import Path

try:
    import paceline as pl
except ImportError:  # plain torchrun
    pl = None


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Every rank counts steps and says hello.")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    parser.add_argument("--count-file", type=Path, help="keeps the count over restarts")
    parser.add_argument("--fail-at", type=int, help="raise at this step, in the first world only")
    parser.add_argument("--fail-rank", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    print(f"hello from rank {rank} of {size}, local rank {os.environ['LOCAL_RANK']}", flush=True)

    kept = args.count_file.with_name(f"{args.count_file.name}.{rank}") if args.count_file else None
    step = int(kept.read_text()) if kept and kept.exists() else 0
    while step < args.steps:
        if step == args.fail_at and rank == args.fail_rank and restarts == 0:
            raise RuntimeError(f"rank {rank} was asked to fail at step {step}")
        time.sleep(args.step_seconds)  # the work
        step += 1
        if pl:
            pl.step(step)
        if kept:
            part = kept.with_name(kept.name + ".part")
            part.write_text(str(step))
            part.replace(kept)
    print(f"rank {rank} is done after {step} steps", flush=True)


if __name__ == "__main__":
    main()
