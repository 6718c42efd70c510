"""A rank of four with 256 MB of state each is SIGKILLed: how long until all go on, from where?

    .venv/bin/python -m bench.checkpoint.recovery --rounds 5 --kills 3

Every step is saved. The time runs from the kill to the end of the last rank's first new step, with
the state of all four restored from memory and verified, and with the save of that step. Lost are
the steps that the killed world had done and the next one did again. `phases` says when the last
rank had begun, met the others, asked for its state, had it, had done its step, had saved it.
"""

import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from bench.harness import Job, Samples, finish, paceline, parser, prepare, send

RANKS = range(4)


def rows(job: Job) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in job.stamps_dir.iterdir():
        for line in path.read_text().splitlines():
            if line.endswith("}"):
                found.append(json.loads(line))
    return found


def phases(again: list[dict[str, Any]], killed_at: float) -> dict[str, float]:
    """When the last rank got through each part of its way back, in seconds after the kill."""
    firsts = [row for row in again if row["step"] == 1]
    parts = ("begin", "met", "asked", "restored")
    ends = {what: max(row[what] for row in firsts) for what in parts}
    ends["stepped"] = max(row["at"] - row["stall"] for row in firsts)
    ends["saved"] = max(row["at"] for row in firsts)
    return {what: round(at - killed_at, 3) for what, at in ends.items()}


def kill_ranks(samples: Samples, job: Job, *, kills: int, first: int, size: int) -> None:
    ranks = job.first_steps(ranks=RANKS, after=job.started, within=180)
    if ranks is None:
        print(job.tail(), file=sys.stderr)
        raise SystemExit("the job did not start")
    for number in range(kills):
        time.sleep(3 + random.random())
        victim = (first + number) % len(RANKS)
        killed_at = time.monotonic()
        send(ranks[victim].pid, signal.SIGKILL)
        ranks = job.first_steps(ranks=RANKS, after=killed_at, within=120)
        if ranks is None:
            samples.add("paceline", None, victim=victim, bytes=size)
            print(job.tail(), file=sys.stderr)
            return
        done = max(stamp.at for stamp in ranks.values()) - killed_at
        all_rows = rows(job)
        before = max(row["absolute"] for row in all_rows if row["at"] <= killed_at)
        again = [r for r in all_rows if r["pid"] in {s.pid for s in ranks.values()}]
        lost = before + 1 - min(row["absolute"] for row in again)
        stalls = [row["stall"] for row in all_rows if row["at"] < killed_at and row["step"] > 2]
        samples.add(
            "paceline",
            done,
            victim=victim,
            bytes=size,
            lost=lost,
            stall=round(sorted(stalls)[len(stalls) // 2], 4),
            phases=phases(again, killed_at),
        )


def main() -> None:
    options = parser("SIGKILL of one of 4 ranks with a large state until all go on.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--kills", type=int, default=3)
    options.add_argument("--bytes", type=int, default=256 << 20)
    args = options.parse_args()
    prepare()
    samples = Samples("checkpoint_recovery")
    flags = ("--standalone", "--nproc-per-node", "4", "--max-restarts", "1000")
    ours = paceline(args.bin, *flags, "--run-dir", "{run_dir}")
    for number in range(args.rounds):
        script = Path(__file__).with_name("saving_ddp.py")
        job = Job([ours], script=script, script_args=["--state", str(args.bytes)])
        job.script_args = [*job.script_args, "--checkpoints", str(job.dir / "checkpoints")]
        with job:
            kill_ranks(samples, job, kills=args.kills, first=number * args.kills, size=args.bytes)
    finish()
    lost = [row["lost"] for row in samples.rows if row["seconds"] is not None]
    print(samples.summary("paceline"), f"| steps lost: {lost}")


if __name__ == "__main__":
    main()
