"""What is a plan worth on two unequal processes, and how right are its predictions?

    .venv/bin/python -m bench.plans.speed speed --rounds 3
    .venv/bin/python -m bench.plans.speed plans

Two gloo processes of one thread; the second one has 1/2, 1/3 or 1/4 of the first one's processor
time (a quota of a control group with periods of 10 ms, which needs root). `speed` runs torch's
DistributedDataParallel with equal shares and ours in turn. `plans` runs every kind of plan that can
be carried out for three models, and compares the order of the measured steps with the predicted
one. The processes stand for devices; no network and no accelerator is involved.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.harness import Samples, free_port, machine

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 10_000
FAST = 0.8  # of a core; the rest of the two is left to the system
MODELS = ("mlp", "transformer", "head")
KINDS: dict[str, dict[str, Any]] = {
    "data": {"pipeline": [1], "data": [2], "shard": [False], "recompute": [False],
             "micro_batches": [1]},
    "data, 4 passes": {"pipeline": [1], "data": [2], "shard": [False], "recompute": [False],
                       "micro_batches": [4]},
    "data, recompute": {"pipeline": [1], "data": [2], "shard": [False], "recompute": [True],
                        "micro_batches": [1]},
    "shard": {"pipeline": [1], "data": [2], "shard": [True], "recompute": [False],
              "micro_batches": [1]},
    "one process": {"pipeline": [1], "data": [1], "recompute": [False], "micro_batches": [1]},
    "pipeline, 2": {"pipeline": [2], "recompute": [False], "micro_batches": [2]},
    "pipeline, 4": {"pipeline": [2], "recompute": [False], "micro_batches": [4]},
    "pipeline, 8": {"pipeline": [2], "recompute": [False], "micro_batches": [8]},
    "pipeline, 8, gpipe": {"pipeline": [2], "recompute": [False], "micro_batches": [8],
                           "schedule": ["gpipe"]},
    "pipeline, 8, recompute": {"pipeline": [2], "recompute": [True], "micro_batches": [8]},
}  # fmt: skip


@contextlib.contextmanager
def quotas(shares: list[float]) -> Iterator[list[Path]]:
    """A control group for each process, with that part of a core."""
    groups = [GROUPS / f"plan-speed-{os.getpid()}-{rank}" for rank in range(len(shares))]
    try:
        for group, share in zip(groups, shares, strict=True):
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
        yield groups
    finally:
        for group in groups:
            if group.exists():
                group.rmdir()


def run(ratio: int, *words: str, cache: str) -> dict[str, Any]:
    """One job of two ranks; what rank 0 printed. `cache` has what earlier jobs measured."""
    with quotas([FAST, FAST / ratio]) as groups:
        port = free_port()
        ranks = []
        for rank, group in enumerate(groups):
            env = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                                "CONTROL_GROUP": str(group),
                                "XDG_CACHE_HOME": cache}  # fmt: skip
            ranks.append(subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("training.py")), *words], env=env,
                stdout=subprocess.PIPE, text=True,
            ))  # fmt: skip
        try:
            outs = [one.communicate(timeout=300)[0] for one in ranks]
        finally:
            for one in ranks:
                one.kill()  # ended already, unless somebody interrupts
                one.wait()
    if any(one.returncode for one in ranks):
        raise SystemExit(f"{words}: exit codes {[one.returncode for one in ranks]}\n{outs[0]}")
    return json.loads(outs[0].splitlines()[-1])


def speed(rounds: int, ratios: list[int]) -> None:
    samples = Samples("plan_speed")
    for ratio in ratios:
        gains, errors, plans = [], [], set()
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:  # each job measures anew
                peer = run(ratio, "transformer", "ddp", cache=cache)
                ours = run(ratio, "transformer", "plan", cache=cache)
            samples.add("ddp", peer["step"], ratio=ratio, **peer)
            samples.add("paceline", ours["step"], ratio=ratio, **ours)
            gains.append(peer["step"] / ours["step"])
            errors.append(ours["step"] / ours["predicted"] - 1)
            plans.add(f"{ours['plan']} {ours['shares']} {ours['layers']}")
        print(f"plan_speed: {ratio}:1, {statistics.median(gains):.2f} times as fast as equal DDP "
              f"({min(gains):.2f} to {max(gains):.2f}, n {rounds}; bound "
              f"{(1 + ratio) / 2:.2f}); measured ÷ predicted - 1: "
              f"{', '.join(f'{100 * one:.0f} %' for one in errors)}; {'; '.join(plans)}")


def plans(ratio: int) -> None:
    samples = Samples("plan_kinds")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as cache:
            plans_of(model, ratio, cache, samples)


def plans_of(model: str, ratio: int, cache: str, samples: Samples) -> None:
    found = {}
    chosen = run(ratio, model, "plan", cache=cache)
    samples.add("chosen", chosen["step"], ratio=ratio, **chosen)
    for kind, wishes in KINDS.items():
        found[kind] = run(ratio, model, "plan", json.dumps(wishes), cache=cache)
        samples.add(kind, found[kind]["step"], ratio=ratio, **found[kind])
    least = min(one["step"] for one in found.values())
    apart = [(a, b) for a, b in itertools.combinations(found.values(), 2)
             if abs(a["step"] / b["step"] - 1) > 0.1]  # fmt: skip
    right = sum((a["step"] < b["step"]) == (a["predicted"] < b["predicted"]) for a, b in apart)
    print(f"plan_kinds: {model} at {ratio}:1, {len(found)} plans; chosen {chosen['plan']} is "
          f"{100 * (chosen['step'] / least - 1):.0f} % off the best; {right} of {len(apart)} "
          f"pairs that differ by over 10 % are in the right order", flush=True)
    for kind, one in sorted(found.items(), key=lambda item: item[1]["step"]):
        print(f"  {kind:24} measured {1e3 * one['step']:6.0f} ms, predicted "
              f"{1e3 * one['predicted']:6.0f} ms ({one['plan']})")


def main() -> None:
    options = argparse.ArgumentParser(description="Plans on two unequal processes.")
    options.add_argument("question", choices=("speed", "plans"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ratio", type=int, help="only this one (default: 2, 3, 4; plans: 2)")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    if args.question == "speed":
        speed(args.rounds, [args.ratio] if args.ratio else [2, 3, 4])
    else:
        plans(args.ratio or 2)


if __name__ == "__main__":
    main()
