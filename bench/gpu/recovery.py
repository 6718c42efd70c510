"""A rank on a GPU is SIGKILLed: how long until its first new step, and where that time goes?

    .venv/bin/python -m bench.gpu.recovery --rounds 3 --kills 3

paceline and torchrun alternate. Both run small_gpu.py, which saves nothing. The parts: the
process, the import of torch, the CUDA context, model and optimizer, and the first step, whose
kernels are loaded then.
"""

import json
import random
import signal
import sys
import time
from pathlib import Path

from bench.harness import Job, Samples, System, finish, paceline, parser, prepare, send, torchrun

SCRIPT = Path(__file__).with_name("small_gpu.py")
FLAGS = ("--standalone", "--nproc-per-node", "1", "--max-restarts", "1000")
PARTS = ("process", "imports", "context", "setup", "first_step")


def kill(samples: Samples, system: System, kills: int) -> None:
    with Job([system], script=SCRIPT) as job:
        ranks = job.first_steps(ranks=[0], after=job.started, within=120)
        for _ in range(kills):
            if ranks is None:
                print(job.tail(), file=sys.stderr)
                raise SystemExit(f"{system.name} did not come to its first step")
            time.sleep(1 + random.random())
            killed_at = time.monotonic()
            send(ranks[0].pid, signal.SIGKILL)
            ranks = job.first_steps(ranks=[0], after=killed_at, within=60)
            if ranks is None:
                samples.add(system.name, None)
                continue
            row = json.loads((job.stamps_dir / f"0.{ranks[0].pid}").read_text())
            at = [killed_at, row["begin"], row["imported"], row["context"], row["ready"], row["at"]]
            took = {name: round(at[i + 1] - at[i], 4) for i, name in enumerate(PARTS)}
            samples.add(system.name, ranks[0].at - killed_at, **took)


def main() -> None:
    options = parser("SIGKILL of one rank on a GPU until its first new step.")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--kills", type=int, default=3)
    args = options.parse_args()
    prepare()
    samples = Samples("gpu_recovery")
    ours = paceline(args.bin, *FLAGS, "--run-dir", "{run_dir}")
    theirs = torchrun(args.bin, *FLAGS, name="torchrun own store", fixed=True)
    wanted = [system for system in (ours, theirs) if args.systems in system.name]
    for number in range(args.rounds):
        for system in wanted[:: 1 if number % 2 == 0 else -1]:
            kill(samples, system, args.kills)
    finish()
    print(samples.summary(*[system.name for system in wanted]))


if __name__ == "__main__":
    main()
