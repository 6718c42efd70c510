"""What does an undisturbed job pay for being watched?

    .venv/bin/python -m bench.runtime.overhead --pairs 10 --seconds 30

Pairs of runs, ours and plain torchrun, order alternating. In a window of each run we take the CPU
time of the ranks and, apart, of everything else that the launcher keeps alive (ours: launcher,
master, agent, starter; torchrun: its agent), and the number of steps. Start-up is not part of it;
see launch.py.
"""

import os
import statistics
import sys
import time

from bench.harness import (
    Job,
    Samples,
    System,
    cpu_seconds,
    descendants,
    finish,
    paceline,
    parser,
    prepare,
)
from bench.harness import torchrun as torchrun_system

RANKS = range(4)


def measure(samples: Samples, system: System, *, seconds: float, width: int) -> dict[str, float]:
    with Job([system], script_args=("--every", "10", "--width", str(width))) as job:
        first = job.first_steps(ranks=RANKS, after=job.started, within=180)
        if first is None:
            print(job.tail(), file=sys.stderr)
            raise SystemExit(f"{system.name} did not start")
        time.sleep(3)  # the first steps are not like the others
        ranks = [stamp.pid for stamp in first.values()]
        others = [pid for pid in descendants(os.getpid()) if pid not in ranks]
        before = (time.monotonic(), cpu_seconds(ranks), cpu_seconds(others))
        time.sleep(seconds)
        after = (time.monotonic(), cpu_seconds(ranks), cpu_seconds(others))
        stamps = [s for s in job.stamps() if s.rank == 0 and before[0] <= s.at <= after[0]]
        steps = stamps[-1].step - stamps[0].step
        row = {
            "step_ms": 1000 * (stamps[-1].at - stamps[0].at) / steps,
            "rank_cpu_s": after[1] - before[1],
            "other_cpu_s": after[2] - before[2],
        }
        row["other_share"] = row["other_cpu_s"] / row["rank_cpu_s"]
        samples.add(system.name, after[0] - before[0], **{k: round(v, 6) for k, v in row.items()})
        return row


def main() -> None:
    options = parser("CPU seconds and step time against plain torchrun, in pairs.")
    options.add_argument("--pairs", type=int, default=10)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--width", type=int, default=512)
    args = options.parse_args()
    prepare()
    samples = Samples("overhead")
    flags = ("--standalone", "--nproc-per-node", "4")
    ours = paceline(args.bin, *flags, "--run-dir", "{run_dir}")
    peer = torchrun_system(args.bin, *flags, name="torchrun", fixed=False)
    rows: dict[str, list[dict[str, float]]] = {ours.name: [], peer.name: []}
    for number in range(args.pairs):
        for system in (ours, peer)[:: 1 if number % 2 == 0 else -1]:
            if args.systems in system.name:
                taken = measure(samples, system, seconds=args.seconds, width=args.width)
                rows[system.name].append(taken)
    finish()
    for name, taken in rows.items():
        for value in ("step_ms", "other_share") if taken else ():
            middle = statistics.median(row[value] for row in taken)
            print(f"overhead: {name} {value} p50 {middle:.6g}")
    pairs = list(zip(rows[ours.name], rows[peer.name], strict=False))
    if pairs:
        ratios = sorted(mine["step_ms"] / theirs["step_ms"] for mine, theirs in pairs)
        shares = [mine["other_share"] - theirs["other_share"] for mine, theirs in pairs]
        print(
            f"overhead: step time {statistics.median(ratios):.4f} of torchrun's "
            f"({ratios[0]:.4f} to {ratios[-1]:.4f}, {len(ratios)} pairs), "
            f"other processes {100 * statistics.median(shares):+.3f} % of the ranks' CPU seconds"
        )


if __name__ == "__main__":
    main()
