"""How good is the search for a parallel plan, and how long does it take?

    cmake --preset release && ninja -C build/release bench_plan_search
    .venv/bin/python -m bench.plans.search --instances 2000

Random small instances (up to 3 types of device, 6 devices, 12 layers) are planned by ours, by brute
force over all cuts of all shapes, and by Whale's rules (USENIX ATC 2022, Algorithm 1 and the order
of stages by memory), all under the same model of costs. Nothing runs on devices: a step is what
that model says. Large clusters are only timed; the published times of others stand beside them in
README.md, measured by their authors on their machines.
"""

import argparse
import json
import subprocess
import sys

from bench.harness import BENCH, Samples, machine

TOLERANCE = 1e-9


def main() -> None:
    options = argparse.ArgumentParser(description="The search for a parallel plan.")
    options.add_argument("--instances", type=int, default=2000)
    options.add_argument("--seed", type=int, default=2026)
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    command = [str(BENCH.parent / "build" / "release" / "bench" / "bench_plan_search")]
    command += [str(args.instances), str(args.seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    samples = Samples("plan_search")
    for row in rows:
        samples.add("ours", row["seconds"], **{k: v for k, v in row.items() if k != "seconds"})
    small = [row for row in rows if "instance" in row]
    fitting = [row for row in small if row["closed_least"] is not None]
    missed = [row for row in fitting if row["closed"] is None]
    wrong = [row for row in small if row["closed_least"] is None and row["closed"] is not None]
    both = [row for row in fitting if row["closed"] is not None]
    regret = max(row["closed"] / row["closed_least"] - 1 for row in both)
    slower = [row for row in both if row["step"] > 1.01 * row["step_least"]]
    whale = [row for row in both if row["whale"] is not None]
    worse = [row for row in whale if row["step"] > row["whale"] * (1 + TOLERANCE)]
    gains = sorted(row["whale"] / row["step"] for row in whale)
    print(
        f"plan_search: {len(both)} of {len(small)} instances fit ({len(missed) + len(wrong)} "
        f"judged wrongly), regret of the closed form at most {regret:.1e}; by simulation "
        f"{len(slower)} are more than 1 % slower than the best; Whale fits {len(whale)}, is better "
        f"in {len(worse)}, and its steps are {gains[len(gains) // 2]:.2f} times as long (median)"
    )
    for row in rows:
        if "cluster" in row:
            gap = row["step"] / row["bound"] - 1
            print(f"  {row['model']} on {row['cluster']}: {row['seconds']:.2f} s, {row['shapes']} "
                  f"shapes, step {row['step']:.3g} s, at most {100 * gap:.1f} % above the bound")


if __name__ == "__main__":
    main()
