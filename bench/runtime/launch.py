"""From the command to the first step of all of four ranks.

    .venv/bin/python -m bench.runtime.launch --rounds 10

`paceline first` is a first launch ever: no starter is alive and nothing was learned about the
script. `paceline again` has the list of modules that the first one learned, but no starter;
`paceline warm` finds the starter that `--keep-warm` left behind, as in an edit-run loop.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from bench.harness import Job, Samples, System, descendants, finish, paceline, parser, prepare, send
from bench.harness import torchrun as torchrun_system

RANKS = range(4)
FLAGS = ("--standalone", "--nproc-per-node", "4")


def forget_starters() -> None:
    for pid, command in descendants(os.getpid()).items():
        if "paceline._starter" in command:
            send(pid, signal.SIGKILL)


def launch(samples: Samples, system: System) -> None:
    if system.name in ("paceline first", "paceline again"):
        forget_starters()
    if system.name == "paceline first":
        shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]), ignore_errors=True)
    with Job([system]) as job:
        ranks = job.first_steps(ranks=RANKS, after=job.started, within=180)
        if ranks is None:
            print(job.tail(), file=sys.stderr)
            raise SystemExit(f"{system.name} did not start")
        samples.add(system.name, max(stamp.at for stamp in ranks.values()) - job.started)


def main() -> None:
    options = parser("First launch of 4 ranks until their first step; the same kept warm.")
    options.add_argument("--rounds", type=int, default=10)
    args = options.parse_args()
    prepare()
    samples = Samples("launch")
    ours = (*FLAGS, "--run-dir", "{run_dir}", "--keep-warm", "30m")
    systems = [
        paceline(args.bin, *ours, name="paceline first"),
        paceline(args.bin, *ours, name="paceline again"),
        paceline(args.bin, *ours, name="paceline warm"),
    ]
    peer = torchrun_system(args.bin, *FLAGS, name="torchrun", fixed=True)
    for number in range(args.rounds):
        order = [*systems, peer] if number % 2 == 0 else [peer, *systems]
        for system in order:
            if args.systems in system.name:
                launch(samples, system)
    finish()
    print(samples.summary("torchrun", *(system.name for system in systems)))


if __name__ == "__main__":
    main()
