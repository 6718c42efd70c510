"""A training job without tensors: each rank counts steps and saves how far it came.

    steps.py --dir DIR --steps N [--pace S] [--fail RANK:STEP:HOW]... [--print] [--save-every K]
             [--hold STEP[:FILE]]...

HOW is raise, kill, segv, exit:CODE, or memory. `--fail` happens in the first world only, unless HOW
ends in "!". Every rank appends "generation step" to DIR/rank<r>.steps, so a test sees what was
redone. With --save-every a checkpoint counts K steps and is told; without it, each step is saved
and none is told. With --hold nobody begins that step or a later one until there is a file DIR/FILE
(default: go); but a world that is restored there makes one step, so that it is seen to train.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

import paceline as pl


def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("bad batch")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how.startswith("exit:"):
        os._exit(int(how.removeprefix("exit:")))
    if how == "memory":
        held = []
        while True:
            held.append(bytearray(16 << 20))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--fail", action="append", default=[])
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--hold", action="append", default=[])
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()

    held = [(int(step), args.dir / (name or "go"))
            for step, _, name in (hold.partition(":") for hold in args.hold)]
    rank = int(os.environ["RANK"])
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    saved: Path = args.dir / f"rank{rank}.saved"
    begin = int(saved.read_text()) + 1 if saved.exists() else 0
    with open(args.dir / f"rank{rank}.steps", "a") as steps:
        for step in range(begin, args.steps):
            time.sleep(args.pace)
            while step > begin and any(step >= at and not file.exists() for at, file in held):
                time.sleep(0.02)
            for fault in args.fail:
                who, when, how = fault.split(":", 2)
                always = how.endswith("!")
                if int(who) == rank and int(when) == step and (always or restarts == 0):
                    fail(how.removesuffix("!"))
            pl.step(step)
            steps.write(f"{os.environ['PACELINE_GENERATION']} {step}\n")
            steps.flush()
            if args.print:
                print(f"step {step}", flush=True)
            if args.save_every and (step + 1) % args.save_every:
                continue
            temporary = saved.with_suffix(".new")
            temporary.write_text(str(step))
            temporary.rename(saved)
            if args.save_every:
                pl.saved(step)


if __name__ == "__main__":
    main()
