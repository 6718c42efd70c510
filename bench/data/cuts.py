"""How long synchronous steps take with ranks of different speed: even cuts and cuts by speed.

    .venv/bin/python -m bench.data.cuts --rounds 3

Ranks are processes over gloo; a rank's work is sleeping `fixed + samples * seconds_per_sample`,
slowed by a pattern, then one small all-reduce, so the cores do not matter much. Makespan is from
the first step to the last one's end, at the slowest rank. *Ideal* is what the same steps take when
each is cut so that all ranks end together, with the true speeds known beforehand and no exchange;
noise is not known beforehand, and evenly cut.

Patterns: `even`; `constant`, one of four at 1/3.77 of the speed (the worst job of PAI's traces);
`onset`, from a third on, for a third; `mixed`, speeds of 1, 0.9, 0.7 and 0.5; `noise`, 10 % each
step and one step of 50 at three times its length.

`--scale 5` makes every step five times as long. What an all-reduce of four processes on these cores
and an overslept sleep cost is in each step, whoever cuts it; in long steps it shows less.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import Samples, free_port, machine

RANKS = 4
BATCH = 128
PATTERNS = ("even", "constant", "onset", "mixed", "noise")
SYSTEMS = ("even cut", "by speed")
FIXED, PER_SAMPLE = 0.002, 0.0005  # seconds


def slowness(pattern: str, rank: int, step: int, steps: int) -> float:
    """How many times longer than a healthy rank this one takes for the step."""
    if pattern == "constant":
        return 3.77 if rank == 1 else 1
    if pattern == "onset":
        return 3.77 if rank == 1 and steps // 3 <= step < 2 * steps // 3 else 1
    if pattern == "mixed":
        return 1 / (1, 0.9, 0.7, 0.5)[rank]
    if pattern == "noise":
        chance = random.Random(f"{rank}/{step}")
        return (3 if chance.random() < 0.02 else 1) * chance.uniform(0.9, 1.1)
    return 1


def seconds_of(samples: int) -> float:
    return FIXED + samples * PER_SAMPLE


def ideal(pattern: str, steps: int) -> float:
    """The sum of the shortest steps: the true lines, cut exactly, by trying to finish in time."""
    total, known = 0.0, {}
    for step in range(steps):
        slow = tuple(slowness(pattern, rank, step, steps) for rank in range(RANKS))
        if pattern == "noise":  # of equals, which nobody can know beforehand: an even cut
            total += max(slow) * seconds_of(BATCH // RANKS)
            continue
        if slow not in known:
            known[slow] = shortest(slow)
        total += known[slow]
    return total


def shortest(slow: Sequence[float]) -> float:
    shares = [0] * len(slow)
    for _ in range(BATCH):  # the next sample to whoever would end first with it
        ends = [s * seconds_of(n + 1) for s, n in zip(slow, shares, strict=True)]
        shares[ends.index(min(ends))] += 1
    return max(s * seconds_of(n) for s, n in zip(slow, shares, strict=True))


# ---- a rank ----


def work(pattern: str, system: str, steps: int, scale: float, out: str) -> None:
    import torch
    import torch.distributed as dist
    from paceline.torch import CutBySpeed, ElasticLoader

    from paceline.data import ElasticDataset

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cut = CutBySpeed(most=4.0) if system == "by speed" else None
    data = ElasticDataset(range(BATCH * steps), seed=7, fingerprint=False)
    loader = ElasticLoader(data, global_batch=BATCH, cut=cut)
    sums = torch.zeros(1)
    dist.barrier()
    begin, step, shares = time.monotonic(), 0, []
    for batch in loader:
        time.sleep(scale * slowness(pattern, rank, step, steps) * seconds_of(len(batch)))
        loader.worked()
        sums[0] = loader.weight
        dist.all_reduce(sums)
        shares.append(len(batch))
        step += 1
    if rank == 0:
        told = {"seconds": time.monotonic() - begin, "steps": step, "shares": loader.shares}
        Path(out).write_text(json.dumps(told))
    dist.destroy_process_group()


def run(pattern: str, system: str, steps: int, scale: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "told"
        port = str(free_port())
        common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                  "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
        words = [sys.executable, __file__, "--work", pattern, system, str(steps), str(scale),
                 str(out)]
        ranks = [subprocess.Popen(words, env={**common, "RANK": str(rank)})
                 for rank in range(RANKS)]
        if sum(one.wait() != 0 for one in ranks):
            raise SystemExit(f"a rank of {pattern}, {system} failed")
        return json.loads(out.read_text())


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        pattern, system, steps, scale, out = sys.argv[2:]
        return work(pattern, system, int(steps), float(scale), out)
    options = argparse.ArgumentParser(description="Steps with ranks of different speed.")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--pattern", choices=PATTERNS, action="append")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("data_cuts")
    lines: list[str] = []
    patterns = args.pattern or PATTERNS
    for number in range(args.rounds):
        for pattern in patterns:
            best = args.scale * ideal(pattern, args.steps)
            for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
                told = run(pattern, system, args.steps, args.scale)
                samples.add(f"{pattern}, {system}", told["seconds"], ideal=best,
                            scale=args.scale, ratio=told["seconds"] / best,
                            shares=told["shares"])
    for pattern in patterns:
        best = args.scale * ideal(pattern, args.steps)
        ratios = [statistics.median(samples.of(f"{pattern}, {s}")) / best for s in SYSTEMS]
        lines.append(f"{pattern} {ratios[0]:.3f} → {ratios[1]:.3f}")
    print("data_cuts: makespan ÷ ideal, even cut → by speed: " + " | ".join(lines))
    return None


if __name__ == "__main__":
    main()
