"""Workers that lease a data set; each writes what it worked on, in its own file.

With --hold each process has its sample of that number in hand until there is a file OUT/go.
"""

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Any

import paceline
from paceline.data import shards


class Counts:
    """How often this rank saw each sample, in the checkpoint with it."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"seen": dict(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = dict(state["seen"])

    def write(self, path: Path) -> None:
        lines = [f"{sample} {count}" for sample, count in sorted(self.seen.items())]
        path.write_text("\n".join(lines))


class Records:
    def __init__(self, count: int, bad: int) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if index == self.bad:
            raise ValueError(f"record {index} is broken")
        return index


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0.002)
    parser.add_argument("--lease", type=int, default=20)
    parser.add_argument("--deadline", type=float, default=10.0)
    parser.add_argument("--poison", type=int, default=-1)
    parser.add_argument("--bad", type=int, default=-1)
    parser.add_argument("--hold", type=int, default=-1)
    parser.add_argument("--second", action="store_true")
    parser.add_argument("--without-steps", action="store_true")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--every", type=int, default=1_000_000)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    rank = paceline.rank()
    print(f"rank {rank} pid {os.getpid()}", flush=True)

    options: dict[str, Any] = {
        "epochs": given.epochs,
        "lease": given.lease,
        "deadline": given.deadline,
        "bad_samples": "skip",
        "resume": "checkpoint" if given.checkpoint else "acks",
    }
    loader = shards(Records(given.samples, given.bad), name="train", seed=7, **options)
    counts = Counts()
    step = 0
    ckpt = None
    state: dict[str, Any] = {"counts": counts, "data": loader}
    if given.checkpoint:
        from paceline.numpy import Checkpointer

        ckpt = Checkpointer(given.checkpoint, every=given.every)
        step = ckpt.restore(state)
    with open(given.out / f"work-{rank}-{os.getpid()}", "a", buffering=1) as work:
        for number, sample in enumerate(loader, 1):
            if sample == given.poison:
                os.kill(os.getpid(), signal.SIGKILL)
            work.write(f"{sample}\n")
            time.sleep(given.pace)
            if number == given.hold:
                wait_for(given.out / "go")
            counts.seen[str(sample)] = counts.seen.get(str(sample), 0) + 1
            if ckpt is not None and step % 7 == 6:
                ckpt.save(step, state)
            step += 1
            if not given.without_steps:
                paceline.step(step)
    if given.second:
        for _ in shards(range(100), name="eval", shuffle=False):
            pass
    counts.write(given.out / f"counts-{rank}")
    print(f"rank {rank} quarantined {loader.quarantined} lost {loader.lost}", flush=True)


if __name__ == "__main__":
    main()
