"""A rank of four is SIGKILLed: how long until every rank has done its first new step?

    .venv/bin/python -m bench.runtime.recovery --rounds 10 --kills 3 --shipped 5

Each round starts one job of each system and kills a rank `--kills` times, another one each time.
The time runs from the kill to the first step of the last of the four new processes. torchrun as
shipped is asked apart, one kill a job with a cap of 60 s, because it often never comes back.
"""

import random
import signal
import sys
import time

from bench.harness import Job, Samples, System, finish, paceline, parser, prepare, send, torchrun

RANKS = range(4)
FLAGS = ("--standalone", "--nproc-per-node", "4", "--max-restarts", "1000")


def kill_ranks(samples: Samples, system: System, *, kills: int, cap: float, first: int) -> None:
    with Job([system]) as job:
        ranks = job.first_steps(ranks=RANKS, after=job.started, within=180)
        if ranks is None:
            print(job.tail(), file=sys.stderr)
            raise SystemExit(f"{system.name} did not start")
        for number in range(kills):
            time.sleep(1 + random.random())  # trains for a while; no fixed phase to any interval
            victim = (first + number) % len(RANKS)
            killed_at = time.monotonic()
            send(ranks[victim].pid, signal.SIGKILL)
            ranks = job.first_steps(ranks=RANKS, after=killed_at, within=cap)
            if ranks is None:
                samples.add(system.name, None, victim=victim, cap=cap)
                return
            each = {stamp.rank: round(stamp.at - killed_at, 4) for stamp in ranks.values()}
            samples.add(system.name, max(each.values()), victim=victim, ranks=each)


def main() -> None:
    options = parser("SIGKILL of one of 4 ranks until every rank's first new step.")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--kills", type=int, default=3)
    options.add_argument("--shipped", type=int, default=5, help="jobs of torchrun as shipped")
    args = options.parse_args()
    prepare()
    samples = Samples("recovery")
    ours = paceline(args.bin, *FLAGS, "--run-dir", "{run_dir}")
    fixed = torchrun(args.bin, *FLAGS, name="torchrun own store", fixed=True)
    shipped = torchrun(args.bin, *FLAGS, name="torchrun as shipped", fixed=False)
    wanted = [system for system in (ours, fixed) if args.systems in system.name]
    for number in range(args.rounds):
        for system in wanted[:: 1 if number % 2 == 0 else -1]:
            kill_ranks(samples, system, kills=args.kills, cap=120, first=number * args.kills)
    if args.systems in shipped.name:
        for number in range(args.shipped):
            kill_ranks(samples, shipped, kills=1, cap=60, first=number)
    finish()
    print(samples.summary(ours.name, fixed.name, shipped.name))


if __name__ == "__main__":
    main()
