"""How rightly, and how soon, is a rank named that stopped? And is a busy machine blamed on ranks?

    .venv/bin/python -m bench.runtime.hang_stop --trials 100
    .venv/bin/python -m bench.runtime.hang_stop --quiet-steps 5000

Four ranks train small_ddp.py over gloo on one host. In each trial one of them, drawn by chance,
gets SIGSTOP at a random moment; the trial ends when all ranks train again. The time is that from
the signal to the master's record of the verdict. With `--quiet-steps` nothing is stopped: processes
that only compute take both cores meanwhile, and no verdict may be given.

No peer runs beside: NVRx publishes 60 to 90 s, and DLRover has a constant of 600 s. Nothing is
simulated.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.harness import Job, Samples, Stamp, finish, paceline, parser, percentile, prepare, send

RANKS = 4
STEPS_BEFORE = 40  # of each rank, in its own process
WITHIN = 60.0


def events(job: Job, kind: str) -> list[dict[str, Any]]:
    command = [job.systems[0].command[0], "events", "--json", "--job", str(job.dir / "run")]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [row for row in rows if row.get("kind") == kind]


def training(job: Job, after: float) -> dict[int, Stamp]:
    """The ranks' processes that began to train after that time, once each has made its steps."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        ranks = {
            stamp.rank: stamp
            for stamp in job.stamps()
            if stamp.at > after and stamp.step >= STEPS_BEFORE
        }
        if len(ranks) == RANKS:
            return ranks
        time.sleep(0.05)
    raise SystemExit(f"hang_stop: no training within {WITHIN} s\n{job.tail()}")


def verdict(job: Job, known: int) -> dict[str, Any] | None:
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        found = events(job, "hang_judged")
        if len(found) > known:
            return found[known]
        time.sleep(0.2)
    return None


def trial(job: Job, chance: random.Random, after: float, known: int, samples: Samples) -> bool:
    ranks = training(job, after)
    time.sleep(chance.uniform(0, 0.5))
    rank = chance.randrange(RANKS)
    stopped_at = time.time()
    send(ranks[rank].pid, signal.SIGSTOP)
    judged = verdict(job, known)
    if judged is None:
        samples.add("paceline", None, rank=rank)
        return False
    culprits = judged["details"].get("culprits", "")
    is_right = culprits == str(rank) and bool(re.search(r"stopped \(SIGSTOP\)", judged["sentence"]))
    samples.add("paceline", float(judged["time"]) - stopped_at, rank=rank, right=is_right,
                sentence=judged["sentence"])  # fmt: skip
    return is_right


def trials(system: Any, count: int, seed: int) -> None:
    chance = random.Random(seed)
    samples = Samples("hang_stop")
    right = 0
    with Job([system], script_args=("--every", "20")) as job:
        after = job.started
        for known in range(count):
            right += trial(job, chance, after, known, samples)
            after = time.monotonic()
    times = samples.of("paceline")
    print(
        f"hang_stop: {right} of {count} named rightly; signal to verdict p50 "
        f"{statistics.median(times):.2f} s, p99 {percentile(times, 99):.2f} s"
    )


def quiet(system: Any, steps: int) -> None:
    samples = Samples("hang_quiet")
    burn = [sys.executable, "-c", "while True: pass"]
    noise = [subprocess.Popen(burn) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        with Job([system], script_args=("--steps", str(steps), "--width", "256")) as job:
            code = job.processes[0].wait()
            judged = [event["sentence"] for event in events(job, "hang_judged")]
            failed = len(events(job, "rank_failed"))
            samples.add("paceline", time.monotonic() - job.started, steps=steps, code=code,
                        judged=judged, failed=failed)  # fmt: skip
    finally:
        for process in noise:
            process.kill()
            process.wait()
    print(f"hang_quiet: {steps} steps, {len(judged)} verdicts, {failed} failed ranks, exit {code}")


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--trials", type=int, default=0)
    options.add_argument("--quiet-steps", type=int, default=0)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    prepare()
    flags = ("--standalone", "--nproc-per-node", str(RANKS), "--max-restarts", "1000")
    system = paceline(given.bin, "--run-dir", "{run_dir}", *flags)
    try:
        if given.trials:
            trials(system, given.trials, given.seed)
        if given.quiet_steps:
            quiet(system, given.quiet_steps)
    finally:
        finish()


if __name__ == "__main__":
    main()
