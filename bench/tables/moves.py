"""How long lookups and pushes wait while partitions move, and when a server is lost.

    python3 -m bench.tables.moves --rounds 3            # 2 → 4 → 2 servers under load
    python3 -m bench.tables.moves --rounds 3 --kill     # a server with half of the rows is killed

Two workers look 4,096 keys up and push to them, without a pause. A round has a quiet part and one
in which the number of servers goes from 2 to 4 and back; calls of both parts come from the same
processes. With --kill a server gets SIGKILL instead, and the time until each worker has had an
answer to a push that began after it is reported.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Samples, machine

WORKERS, PARTITIONS = 2, 4096
QUIET_S = 10.0


@dataclass(frozen=True)
class Call:
    begin: float
    looked_up: float
    pushed: float


def until(ask: Callable[[], bool]) -> None:
    while not ask():
        time.sleep(0.05)


class Cluster:
    def __init__(self, folder: Path, paceline: str, rows: int, keys: int) -> None:
        self.folder, self.paceline = folder, paceline
        self.process = subprocess.Popen(
            [paceline, "run", "--run-dir", str(folder / "run"), "--workers", str(WORKERS),
             "--ps", "2", "--tables", str(folder / "tables"),
             str(Path(__file__).with_name("moves_worker.py")),
             "--folder", str(folder), "--rows", str(rows), "--keys", str(keys)],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: all((folder / f"filled-{i}").exists() for i in range(WORKERS)))

    def end(self) -> None:
        (self.folder / "end").touch()
        self.process.wait()

    def ask(self, *words: str) -> str:
        return subprocess.run([self.paceline, *words, "--job", str(self.folder / "run")],
                              capture_output=True, text=True, check=True).stdout

    def servers(self) -> dict[str, dict[str, int]]:
        tasks = json.loads(self.ask("tasks", "--json"))["tasks"]
        return {task["name"]: task for task in tasks if task["name"].startswith("ps-")}

    def scale(self, servers: int) -> None:
        self.ask("tasks", "scale", f"ps={servers}")
        least = PARTITIONS // servers

        def is_spread() -> bool:
            known = self.servers()
            return len(known) == servers and all(
                one.get("partitions", 0) >= least for one in known.values())
        until(is_spread)

    def calls(self, begin: float, end: float) -> list[Call]:
        found = []
        for worker in range(WORKERS):
            # The last line may not be whole yet.
            lines = (self.folder / f"calls-{worker}").read_text().split("\n")[:-1]
            found += [call for call in (Call(*map(float, line.split())) for line in lines)
                      if begin <= call.begin < end]
        return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)] * 1e3


def told(name: str, values: list[float]) -> str:
    return (f"{name} p50 {percentile(values, 0.5):.1f} p99.9 {percentile(values, 0.999):.1f} "
            f"longest {max(values) * 1e3:.1f} ms")


def move(cluster: Cluster, samples: Samples, turn: int) -> None:
    quiet = time.monotonic()
    time.sleep(QUIET_S)
    moving = time.monotonic()
    cluster.scale(4)
    cluster.scale(2)
    over = time.monotonic()
    time.sleep(1)  # the last calls are written
    for part, calls in (("quiet", cluster.calls(quiet, moving)),
                        ("moving", cluster.calls(moving, over))):
        lookups = [call.looked_up for call in calls]
        pushes = [call.pushed for call in calls]
        for kind, values in (("lookup", lookups), ("push", pushes)):
            samples.add(f"{part}_{kind}", statistics.median(values), n=len(values), turn=turn,
                        p999_ms=percentile(values, 0.999), longest_ms=max(values) * 1e3)
        print(f"tables_moves {turn} {part}: {told('lookup', lookups)} | {told('push', pushes)} | "
              f"n {len(calls)}", flush=True)
    print(f"tables_moves {turn}: 2 → 4 → 2 took {over - moving:.1f} s", flush=True)


def kill(cluster: Cluster, samples: Samples, turn: int) -> None:
    server = cluster.servers()["ps-1"]
    at = time.monotonic()
    os.kill(server["pid"], signal.SIGKILL)

    def is_served() -> bool:
        for worker in range(WORKERS):
            lines = (cluster.folder / f"calls-{worker}").read_text().split("\n")[:-1]
            # Each call needs both servers.
            if float(lines[-1].split()[0]) < at:
                return False
        return cluster.servers()["ps-1"]["pid"] != server["pid"]
    until(is_served)
    seconds = time.monotonic() - at
    samples.add("killed", seconds, bytes=server["bytes"], turn=turn)
    print(f"tables_moves {turn}: a server with {server['bytes'] / 2**30:.2f} GiB killed: both "
          f"workers were served again after {seconds:.2f} s", flush=True)
    time.sleep(QUIET_S)  # a snapshot


def main() -> None:
    options = argparse.ArgumentParser(description="Waits while partitions move.")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--keys", type=int, default=4_096)
    options.add_argument("--kill", action="store_true")
    options.add_argument("--paceline", default=str(Path(sys.executable).parent / "paceline"))
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("tables_kill" if args.kill else "tables_moves")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), args.paceline, args.rows, args.keys)
        try:
            for turn in range(args.rounds):
                (kill if args.kill else move)(cluster, samples, turn)
        finally:
            cluster.end()


if __name__ == "__main__":
    main()
