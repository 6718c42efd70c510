"""A raylet is killed: how long until the training goes on, beside local nodes and Ray Train?

    .venv/bin/python -m bench.ray.recovery --rounds 5         # about four minutes a round

A real Ray of three raylets with one CPU each, and a head, on this machine. Two nodes of one rank
train, and the third is a spare (ours) or free (Ray Train's). A round has four samples:

- `local nodes`: no Ray; agent and rank of a node are killed. From the death of the rank to the
  first step of both ranks of the next world.
- `Ray`: the same script; the raylet of a node is killed. From the death of the node's last rank to
  the same step. `death` is the time from the raylet's end to that death, which is not in it.
- `PacelineTrainer` and `Ray Train`: training.py, which reports a checkpoint each step, with either
  trainer. From the kill of a rank's raylet until both ranks have done a step that none had begun.

A raylet with the adapter, the master or Ray Train's controller is spared if the other has none.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import (
    BENCH,
    SCRIPT,
    Job,
    Samples,
    finish,
    paceline,
    parser,
    prepare,
    process_table,
    send,
)

sys.path.insert(0, str(BENCH.parent / "tests" / "ray"))

from ray_cluster import RayCluster

os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
WITHIN_S = 240.0
CONTROL = ("ray::Adapter", "ray::Master", "ray::TrainController")
TRAINING = Path(__file__).with_name("training.py")


def poll(ask: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WITHIN_S
    while not ask():
        if time.monotonic() > until:
            raise SystemExit(f"not seen in {WITHIN_S:.0f} s: {what}")
        time.sleep(0.005)


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Steps:
    """The stamps of a training: its ranks' steps by process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def of(self) -> dict[tuple[int, int], list[tuple[int, float]]]:
        """By rank and pid: each step with its time."""
        found: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for path in self.folder.iterdir():
            rank, _, pid = path.name.partition(".")
            # A line that is being written lacks its end.
            rows = [json.loads(line) for line in path.read_text().splitlines(keepends=True)
                    if line.endswith("\n")]
            found[int(rank), int(pid)] = [(row["step"], row["at"]) for row in rows]
        return found

    def highest(self) -> int:
        return max((step for rows in self.of().values() for step, _ in rows), default=0)

    def pids(self) -> dict[int, int]:
        """The living process of each rank that has stepped."""
        return {rank: pid for (rank, pid), rows in self.of().items() if rows and not is_dead(pid)}

    def first_after(self, at: float, beyond: int) -> float | None:
        """When both ranks had done a step above `beyond` in processes that began after `at`."""
        done: dict[int, float] = {}
        for (rank, _), rows in self.of().items():
            new = [when for step, when in rows if step > beyond]
            if rows and rows[0][1] > at and new:
                done[rank] = min(new[0], done.get(rank, new[0]))
        return max(done.values()) if len(done) == 2 else None


class Bench:
    def __init__(self, cluster: RayCluster, samples: Samples, folder: Path, bin_dir: Path) -> None:
        self.cluster, self.samples, self.folder, self.bin_dir = cluster, samples, folder, bin_dir
        self.count = 0

    def begin(self) -> tuple[str, Path]:
        """A name and a directory for the next job."""
        self.count += 1
        name = f"bench{self.count}"
        (self.folder / name).mkdir()
        return name, self.folder / name

    def raylet_of(self, pid: int) -> int:
        """The raylet above a process; 0: none."""
        table = process_table()
        while pid in table and not table[pid][1].partition(" ")[0].endswith("/raylet"):
            pid = table[pid][0]
        return pid if pid in table else 0

    def controls(self) -> set[int]:
        """The raylets with an adapter, a master or Ray Train's controller."""
        return {self.raylet_of(pid) for pid, (_, line) in process_table().items()
                if line.startswith(CONTROL)}

    def victim(self, steps: Steps) -> tuple[int, int]:
        """A rank's process and its raylet."""
        control = self.controls()
        found = [(pid, self.raylet_of(pid)) for _, pid in sorted(steps.pids().items())]
        return next((pair for pair in reversed(found) if pair[1] not in control), found[-1])

    def until_steady(self, name: str, steps: Steps) -> None:
        """Both ranks step, and a job of ours has its spare."""
        poll(lambda: len(steps.pids()) == 2, f"two ranks of {name} step")
        if name:
            poll(lambda: self.has_spare(name), f"the spare of {name}")
        time.sleep(2)

    def has_spare(self, name: str) -> bool:
        done = self.cluster.run("status", "--on", f"ray/{name}", "--json")
        states = ([node["state"] for node in json.loads(done.stdout)["nodes"]]
                  if done.returncode == 0 else [])
        return len(states) == 3 and states.count("seated") == 2

    def stop(self, name: str) -> None:
        self.cluster.run("stop", "--on", f"ray/{name}")
        self.cluster.run("wait", "--on", f"ray/{name}")

    def kill(self, raylet: int) -> float:
        """End this raylet, and return when."""
        at = time.monotonic()
        self.cluster.kill_process(raylet)
        return at

    def local_nodes(self) -> None:
        flags = ("--local-nodes", "2", "--nproc-per-node", "1", "--spares", "1", "--replace-nodes",
                 "off", "--run-dir", "{run_dir}")
        system = paceline(self.bin_dir, *flags)
        with Job([system]) as job:
            if job.first_steps(ranks=range(2), after=job.started, within=WITHIN_S) is None:
                raise SystemExit(job.tail())
            time.sleep(2)
            command = [self.bin_dir / "paceline", "status", "--json", "--run-dir", job.dir / "run"]
            nodes = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            last = next(node for node in nodes["nodes"]
                        if any(rank["rank"] == 1 and rank["exit"] is None
                               for rank in node["ranks"]))
            rank = last["ranks"][0]["pid"]
            for pid in (last["agent_pid"], rank):
                send(pid, signal.SIGKILL)
            poll(lambda: is_dead(rank), "the rank is dead")
            died = time.monotonic()
            ranks = job.first_steps(ranks=range(2), after=died, within=WITHIN_S)
            seconds = max(stamp.at for stamp in ranks.values()) - died if ranks else None
            self.samples.add("local nodes", seconds, load=os.getloadavg()[0])

    def on_ray(self) -> None:
        name, folder = self.begin()
        steps = Steps(folder / "stamps")
        done = self.cluster.run("submit", "--on", "ray", "--name", name, "--nodes", "2", "--spares",
                                "1", str(SCRIPT), "--stamps", str(steps.folder))
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        self.until_steady(name, steps)
        rank, raylet = self.victim(steps)
        has_control = raylet in self.controls()
        killed = self.kill(raylet)
        poll(lambda: is_dead(rank), "the rank is dead")
        died = time.monotonic()
        self.take("Ray", steps, since=died, after=died, beyond=0, death=round(died - killed, 3),
                  has_control=has_control)
        self.stop(name)
        self.cluster.add()

    def take(self, system: str, steps: Steps, *, since: float, after: float, beyond: int,
             **more: float) -> None:
        seconds = None
        until = time.monotonic() + WITHIN_S
        while seconds is None and time.monotonic() < until:
            time.sleep(0.02)
            at = steps.first_after(after, beyond)
            seconds = None if at is None else at - since
        self.samples.add(system, seconds, load=os.getloadavg()[0], **more)

    def trainer(self, system: str, word: str) -> None:
        name, folder = self.begin()
        steps = Steps(folder / "stamps")
        (folder / "storage").mkdir()
        with (folder / "log").open("wb") as log:
            driver = subprocess.Popen([sys.executable, str(TRAINING), word, name, str(folder)],
                                      stdout=log, stderr=log, env=self.cluster.environment())
        self.until_steady(name if word == "paceline" else "", steps)
        poll(lambda: steps.highest() > 20, f"twenty steps of {system}")
        _, raylet = self.victim(steps)
        killed = self.kill(raylet)
        # A rank of the lost raylet may still write a step that it had begun.
        beyond = steps.highest() + 1
        self.take(system, steps, since=killed, after=killed, beyond=beyond)
        if word == "paceline":
            self.stop(name)
        else:
            driver.terminate()
        driver.wait()
        poll(lambda: not steps.pids(), f"the ranks of {system} have ended")
        self.cluster.add()


def main() -> None:
    options = parser("A raylet is killed, beside local nodes and Ray Train.")
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()
    prepare()
    samples = Samples("ray_recovery")
    with tempfile.TemporaryDirectory(prefix="paceline-bench-ray-") as folder:
        cluster = RayCluster(raylets=3)
        bench = Bench(cluster, samples, Path(folder), args.bin)
        measures: dict[str, Callable[[], None]] = {
            "local nodes": bench.local_nodes,
            "Ray": bench.on_ray,
            "PacelineTrainer": lambda: bench.trainer("PacelineTrainer", "paceline"),
            "Ray Train": lambda: bench.trainer("Ray Train", "ray-train"),
        }
        for _ in range(args.rounds):
            for name, measure in measures.items():
                if not args.systems or name in args.systems.split(","):
                    measure()
        cluster.close()
    finish()
    print(samples.summary("local nodes", "Ray"))
    print(samples.summary("PacelineTrainer", "Ray Train"))


if __name__ == "__main__":
    main()
