"""What the benchmarks share: starting a system, watching its ranks' stamps, keeping raw samples.

A benchmark asks one question. It runs ours and the peers in one run, in alternating order, so that
a busy minute of the machine hurts all of them, and prints one line; every sample is appended to
bench/raw/QUESTION.jsonl as it is taken.
"""

import argparse
import ctypes
import json
import math
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

BENCH = Path(__file__).resolve().parent
# Many benchmarks start a script of this package by its path, in a process of its own and in another
# folder. That script imports `bench` too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(BENCH.parent), os.environ.get("PYTHONPATH")])
)
SCRIPT = BENCH / "small_ddp.py"
PR_SET_CHILD_SUBREAPER = 36
Processes = dict[int, tuple[int, str]]  # pid → (parent, command line)


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to start the workload: its name, the command up to the script, its environment."""

    name: str
    command: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stamp:
    rank: int
    pid: int
    world: int
    step: int
    at: float  # CLOCK_MONOTONIC


OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def torchrun(bin_dir: Path, *flags: str, name: str, fixed: bool) -> System:
    """torchrun as shipped, or with a store of its own for each attempt and a short interval."""
    extra = ("--monitor-interval", "0.1") if fixed else ()
    env = OWN_STORE if fixed else {}
    return System(name=name, command=[str(bin_dir / "torchrun"), *extra, *flags], env=env)


def paceline(bin_dir: Path, *flags: str, name: str = "paceline") -> System:
    return System(name=name, command=[str(bin_dir / "paceline"), "run", *flags])


class Job:
    """One running job: one command, or one a node for a launcher that wants that.

        with Job([system]) as job:
            first = job.first_steps(ranks=range(4), after=job.started, within=60)

    All processes that it leaves behind are found (we are their subreaper) and ended.
    """

    def __init__(
        self, systems: Sequence[System], *, script: Path = SCRIPT, script_args: Sequence[str] = ()
    ) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="paceline-bench-"))
        self.stamps_dir = self.dir / "stamps"
        self.stamps_dir.mkdir()
        self.systems = systems
        self.script, self.script_args = script, script_args
        self.processes: list[subprocess.Popen[bytes]] = []
        self.started = 0.0

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        for system in self.systems:
            self.start_one(system)
        return self

    def start_one(self, system: System) -> subprocess.Popen[bytes]:
        """Start one command of the job; `{run_dir}` in it is a folder of this job."""
        command = [part.format(run_dir=self.dir / "run") for part in system.command]
        command += [str(self.script), "--stamps", str(self.stamps_dir), *self.script_args]
        log = (self.dir / f"log.{len(self.processes)}").open("wb")
        env = {**os.environ, "OMP_NUM_THREADS": "1", **system.env}
        process = subprocess.Popen(
            command, env=env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        self.processes.append(process)
        return process

    def stamps(self) -> list[Stamp]:
        found: list[Stamp] = []
        for path in self.stamps_dir.iterdir():
            for line in path.read_text().splitlines():
                if line.endswith("}"):
                    row = json.loads(line)
                    found.append(Stamp(**{name: row[name] for name in Stamp.__annotations__}))
        return found

    def first_steps(
        self, *, ranks: Sequence[int], after: float, within: float
    ) -> dict[int, Stamp] | None:
        """The first stamp of each rank by a process that began to train after `after`."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            first: dict[int, Stamp] = {}
            for stamp in self.stamps():
                if stamp.step == 1 and stamp.at > after:
                    first[stamp.rank] = stamp
            if all(rank in first for rank in ranks):
                return first
            if all(process.poll() is not None for process in self.processes):
                return None
            time.sleep(0.02)
        return None

    def tail(self) -> str:
        """The end of the newest log, for a failure's report."""
        logs = sorted(self.dir.glob("log.*"))
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in logs)

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(p.poll() is None for p in self.processes):
            time.sleep(0.02)
        end_processes(lambda command: str(self.dir) in command)
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def process_table() -> Processes:
    table: Processes = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        table[int(entry.name)] = (int(after_name[1]), command)
    return table


def descendants(root: int) -> dict[int, str]:
    """All processes below `root`, with their command lines."""
    table = process_table()
    below: dict[int, str] = {}
    frontier = {root}
    while frontier:
        frontier = {pid for pid, (parent, _) in table.items() if parent in frontier} - below.keys()
        below.update({pid: table[pid][1] for pid in frontier})
    return below


def end_processes(wanted: Callable[[str], bool]) -> None:
    """SIGKILL our own descendants whose command line is wanted, and reap what ended."""
    for pid, command in descendants(os.getpid()).items():
        if wanted(command):
            send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time of these processes so far, all living threads, to the nanosecond."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Samples:
    """The raw samples of one question."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.path = BENCH / "raw" / f"{question}.jsonl"
        self.path.parent.mkdir(exist_ok=True)
        self.rows: list[dict[str, Any]] = []
        self.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def add(self, system: str, seconds: float | None, **more: Any) -> None:
        """Keep one sample; `None` seconds is a sample too: it never came back in its time."""
        row = {"question": self.question, "run": self.run, "system": system, "seconds": seconds}
        self.rows.append({**row, **more})
        with self.path.open("a") as file:
            print(json.dumps(self.rows[-1]), file=file)
        shown = "none" if seconds is None else f"{seconds:.3f} s"
        print(
            f"  {system}: {shown} {json.dumps(more) if more else ''}", file=sys.stderr, flush=True
        )

    def of(self, system: str) -> list[float]:
        values = [row["seconds"] for row in self.rows if row["system"] == system]
        return [value for value in values if value is not None]

    def never(self, system: str) -> int:
        return sum(1 for row in self.rows if row["system"] == system and row["seconds"] is None)

    def summary(self, *systems: str) -> str:
        """One line: p50, p99 and count of each system, and how much slower it is than the first."""
        parts: list[str] = []
        base = statistics.median(self.of(systems[0])) if self.of(systems[0]) else math.nan
        for system in systems:
            values, never = self.of(system), self.never(system)
            text = f"{system} no sample"
            if values:
                p50, p99 = statistics.median(values), percentile(values, 99)
                text = f"{system} p50 {p50:.3g} s p99 {p99:.3g} s n {len(values)}"
                text += f" ({p50 / base:.3g}x)" if system != systems[0] and base > 0 else ""
            parts.append(text + (f", never {never} of {never + len(values)}" if never else ""))
        return f"{self.question}: " + " | ".join(parts)


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: a value that was really measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}, load {load:.2f} at the start"


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description)
    default = BENCH.parent / ".venv" / "bin"
    made.add_argument("--bin", type=Path, default=default, help="folder of paceline and torchrun")
    made.add_argument("--systems", default="", help="only those whose name contains this")
    return made


def prepare() -> None:
    """Collect orphans of what we start, and keep our starters and caches apart from the user's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own = Path(tempfile.mkdtemp(prefix="paceline-bench-own-"))
    own.chmod(0o700)
    os.environ["PACELINE_RUNTIME_DIR"] = str(own / "runtime")
    os.environ["XDG_CACHE_HOME"] = str(own / "cache")
    (own / "runtime").mkdir(mode=0o700)
    print(machine(), file=sys.stderr)


def finish() -> None:
    """End kept-warm starters and whatever else is left of ours."""
    end_processes(lambda command: "paceline" in command or str(SCRIPT) in command)
    shutil.rmtree(Path(os.environ["PACELINE_RUNTIME_DIR"]).parent, ignore_errors=True)
