"""What do the records of a rank's collectives and phases cost?

    .venv/bin/python -m bench.runtime.flight_hooks --rounds 4

Two ranks over gloo on one host make steps of 100 ms with 30 all-reduces of 1 KiB, one after the
other. Each process has two groups of both ranks: `recorded` with the hooks, `plain` without them
and with torch's own `Work.wait`. Steps take turns between the two, so that a busy minute of the
machine hurts both. A recorded step also turns to six phases and counts itself, as a training
script's does.

The compute is simulated: a step sleeps for the rest of its 100 ms. The collectives, the hooks and
the thread that looks whether they are complete are real. The time is that of rank 0's all-reduces
and, for recorded steps, of the phases. CPU time is that of the two Python threads, the script's and
the one that looks, in the whole step: it leaves out gloo's threads, and waiting for the peer, whose
noise on a busy machine is a hundred times what is asked. The verdict is by CPU time. One line of
raw/flight_hooks.jsonl has all steps of a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.harness import Samples, machine

RANKS = 2
COLLECTIVES = 30
STEP_SECONDS = 0.1
SYSTEMS = ("plain", "recorded")
PHASES = (1, 2, 3, 2, 4, 8)  # data, forward, backward, forward, optimizer, unknown
WARM_UP = 5  # pairs of steps that are not counted


# ---- a rank ----


def cpu_seconds() -> float:
    clocks = [
        time.pthread_getcpuclockid(thread.ident)
        for thread in threading.enumerate()
        if thread.ident is not None
    ]
    return sum(time.clock_gettime(clock) for clock in clocks)


def work(steps: int, folder: str) -> None:
    import torch
    import torch.distributed as dist
    from paceline._rank.flight import Flight
    from paceline._rank.hooks.collectives import detach, watch_collectives
    from paceline._rank.phases import Phases
    from torch.distributed import distributed_c10d

    from paceline import _native

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    flight = Flight(_native.FlightWriter.make(f"{folder}/ring.{rank}", 1, rank))
    work_class: Any = distributed_c10d.Work
    waits = {"plain": work_class.wait}
    watch_collectives(flight)
    waits["recorded"] = work_class.wait
    phases = Phases(flight.writer.turn)
    store = dist.FileStore(  # pyright: ignore[reportPrivateImportUsage]
        f"{folder}/store", RANKS
    )
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    groups: dict[str, Any] = {one: dist.new_group(list(range(RANKS))) for one in SYSTEMS}
    detach(groups["plain"])
    tensor = torch.zeros(256)
    told: dict[str, list[tuple[float, float]]] = {system: [] for system in SYSTEMS}

    def collectives(system: str) -> None:
        for _ in range(COLLECTIVES):
            dist.all_reduce(tensor, group=groups[system])

    def step(system: str) -> tuple[float, float]:
        dist.barrier(group=groups["plain"])
        work_class.wait = waits[system]
        begin, cpu = time.perf_counter(), cpu_seconds()
        collectives(system)
        if system == "recorded":
            for phase in PHASES:
                phases.turn(phase)
            flight.writer.step()
        taken = time.perf_counter() - begin
        time.sleep(max(0.0, STEP_SECONDS - taken))
        return taken, cpu_seconds() - cpu

    for number in range(steps + WARM_UP):
        for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
            sample = step(system)
            if number >= WARM_UP:
                told[system].append(sample)
    if rank == 0:
        Path(folder, "told").write_text(json.dumps(told))
    dist.destroy_process_group()
    os._exit(0)  # gloo may abort at the end of a process, with and without hooks


def run(steps: int) -> dict[str, list[tuple[float, float]]]:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--work", str(steps), folder]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen(words, env={**env, "RANK": str(r)}) for r in range(RANKS)]
        if sum(one.wait() != 0 for one in ranks):
            raise SystemExit("a rank failed")
        return json.loads(Path(folder, "told").read_text())


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        return work(int(sys.argv[2]), sys.argv[3])
    options = argparse.ArgumentParser(description="The cost of recording collectives and phases.")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--steps", type=int, default=50)
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("flight_hooks")
    steps: dict[str, list[Any]] = {system: [] for system in SYSTEMS}
    for _ in range(args.rounds):
        for system, taken in run(args.steps).items():
            wall, cpu = zip(*taken, strict=True)
            samples.add(system, statistics.median(wall), cpu=statistics.median(cpu),
                        wall_us=[round(1e6 * one) for one in wall],
                        cpu_us=[round(1e6 * one) for one in cpu])
            steps[system] += taken
    print("flight_hooks: " + summary(steps))
    return None


def summary(steps: dict[str, list[Any]]) -> str:
    """Medians of recorded steps less those of plain steps."""
    parts: list[str] = []
    for place, name in enumerate(("time", "CPU time")):
        plain, recorded = (
            statistics.median(step[place] for step in steps[system]) for system in SYSTEMS
        )
        more = recorded - plain
        parts.append(f"{name} {1e6 * more / COLLECTIVES:+.1f} µs a collective, "
                     f"{100 * more / STEP_SECONDS:+.3f} % of the step "
                     f"(plain {1e6 * plain / COLLECTIVES:.1f} µs)")
    return f"{' | '.join(parts)} | n {len(steps['plain'])} steps each"


if __name__ == "__main__":
    main()
