"""Random crashes of real processes, and what comes back: one step's exact state, never an older one
than was whole. PACELINE_CRASHES=1000 for the long run, PACELINE_CRASH_SEED for other ones;
PACELINE_CRASH_SAMPLES names a file that gets a line a crash."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually, processes_of
from paceline._base.processes import start_time

pytest.importorskip("torch", reason="the script's state is torch's")

CRASHES = int(os.environ.get("PACELINE_CRASHES", "12"))
FIRST_SEED = int(os.environ.get("PACELINE_CRASH_SEED", "1"))
CRASHES_A_JOB = 12
SAMPLES = os.environ.get("PACELINE_CRASH_SAMPLES")
RANKS = range(4)
SHAPE = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2", "--max-restarts", "100000",
         "--replace-nodes", "on"]


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # somebody was faster
            os.kill(pid, number)


def stop_all_threads(pid: int) -> None:
    """Returns when each of them stands still: then no process is half started. A thread that starts
    one does not stop before the child has its own command line."""
    def is_stopped() -> bool:
        states = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it has ended
                states.append((task / "stat").read_text().rpartition(") ")[2][0])
        return set(states) == {"T"}

    os.kill(pid, signal.SIGSTOP)
    eventually(is_stopped, f"process {pid} stands still")


def children_of(pid: int) -> list[int]:
    """Without starters, which stay."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(OSError):  # it has ended
                if b"--info" not in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


@dataclass(frozen=True)
class Said:
    """One line of a rank."""

    what: str
    generation: int
    number: int  # a pid, or a step
    rest: str


def said_by(job: Job, rank: int) -> list[Said]:
    path = job.state / f"said-{rank}"
    text = path.read_text() if path.exists() else ""
    lines = [line.split(" ", 3) for line in text.split("\n")[:-1]]  # not half of the last one
    assert not [line for line in lines if line[0] == "WRONG"], lines
    return [Said(what, int(generation), int(number), " ".join(rest))
            for what, generation, number, *rest in lines]


class Crashes:
    """What happens to one job. Each fault is a method; those that end a world are the CAUSES."""

    def __init__(self, job: Job, seed: int):
        self.job, self.prng = job, random.Random(seed)
        self.size = self.prng.choice([1_000, 100_000, 700_000])
        self.every = self.prng.choice(["7", "25", "1s"])
        self.past = 0  # the newest generation that the faults have ended
        self.is_damaged = False  # since the last restore memory was flipped, or is gone
        self.stored: dict[int, int] = {}  # generation after such a loss → what storage had then

    def start(self) -> None:
        # A node that is given up by its silence alone takes what it had in memory with it.
        self.job.be_patient().start(SHAPE, [
            str(SCRIPTS / "exact.py"), "--checkpoint", str(self.job.directory / "ckpt"),
            "--out", str(self.job.state), "--size", str(self.size), "--every", self.every])

    # ---- what there is ----
    def newest(self, what: str) -> dict[int, Said]:
        found = {}
        for rank in RANKS:
            lines = [line for line in said_by(self.job, rank) if line.what == what]
            if lines:
                found[rank] = lines[-1]
        return found

    def pid(self, rank: int) -> int:
        return self.newest("began")[rank].number

    def agents(self) -> list[int]:
        """One that lives; none while all are started again."""
        told = [json.loads(path.read_text())
                for path in sorted(self.job.run_dir.glob("nodes/*/agent.json"))]
        # A node that was replaced keeps its file, and its agent's pid is soon another process's.
        living = [one["pid"] for one in told if start_time(one["pid"]) == one["start_time"]]
        return [self.prng.choice(living)] if living else []

    def arenas(self) -> list[Path]:
        root = Path(f"/dev/shm/paceline-{os.getuid()}") / self.job.card["id"]
        return sorted(root.glob("*/rank-*.arena"))

    def newest_stored(self) -> int:
        listed = self.job.command("ckpt", "ls", "--json", str(self.job.directory / "ckpt"))
        found = json.loads(listed.stdout)["checkpoints"] if listed.returncode == 0 else []
        return max((int(one["step"]) for one in found), default=-1)

    # ---- what is done to it ----
    def kill_rank(self) -> None:
        self.end_ranks([self.prng.choice(RANKS)])

    def kill_all_ranks(self) -> None:
        self.end_ranks(RANKS)

    def kill_node(self) -> None:
        first = self.prng.choice([0, 2])
        agents = self.agents()  # of that node or of the other one
        signal_all(agents, signal.SIGSTOP)
        self.end_ranks([first, first + 1])
        signal_all(agents, signal.SIGKILL)

    def end_ranks(self, ranks: Iterable[int]) -> None:
        """Their worlds are over then, also if one of them had died before. Without a note of that,
        a world that began after an earlier fault would pass for the one after this fault."""
        began = self.newest("began")
        ended = [began[rank] for rank in ranks]
        self.past = max(self.past, *(line.generation for line in ended))
        signal_all([line.number for line in ended], signal.SIGKILL)

    def kill_everything(self) -> None:
        self.end_everything()
        self.job.start(["--resume"], [])

    def reboot(self) -> None:
        self.end_everything()
        self.is_damaged = True
        for arena in self.arenas():
            arena.unlink()
        self.job.start(["--resume"], [])

    def end_everything(self) -> None:
        launcher = self.job.launcher
        assert launcher is not None
        # A process that it is just starting is not known by its command line yet, and would live.
        stop_all_threads(launcher.pid)
        signal_all(children_of(launcher.pid), signal.SIGKILL)
        launcher.kill()
        launcher.wait()
        eventually(lambda: not self.kill_leftovers(), "nothing lives", job=self.job)
        self.past = self.generation()  # agents may have begun one while they were killed

    def kill_leftovers(self) -> dict[int, str]:
        found = processes_of(self.job.card["id"], self.job.run_dir)
        shared = " --info "  # starters stay
        found = {pid: command for pid, command in found.items() if shared not in command}
        signal_all(list(found), signal.SIGKILL)
        return found

    def kill_agent(self) -> None:
        signal_all(self.agents(), signal.SIGKILL)

    def kill_master(self) -> None:
        signal_all([self.job.card["master"]["pid"]], signal.SIGKILL)

    def freeze_rank(self) -> None:
        self.freeze([self.pid(self.prng.choice(RANKS))])

    def freeze_agent(self) -> None:
        self.freeze(self.agents())

    def freeze(self, pids: list[int]) -> None:
        signal_all(pids, signal.SIGSTOP)
        time.sleep(self.prng.uniform(0, 0.8))
        signal_all(pids, signal.SIGCONT)

    def flip_memory(self) -> None:
        """One bit of one of the arenas, wherever it is."""
        self.is_damaged = True
        with self.prng.choice(self.arenas()).open("r+b", buffering=0) as file:
            at = self.prng.randrange(file.seek(0, os.SEEK_END))
            byte = os.pread(file.fileno(), 1, at)[0] ^ (1 << self.prng.randrange(8))
            os.pwrite(file.fileno(), bytes([byte]), at)

    CAUSES = (kill_rank, kill_all_ranks, kill_node, kill_everything, reboot)
    OTHERS = (kill_agent, kill_master, freeze_rank, freeze_agent, flip_memory, kill_rank)

    def schedule(self) -> list[str]:
        """Faults at random moments, the last of which ends the world. Returns their names."""
        faults: list[Callable[[Crashes], None]] = []
        for _ in range(self.prng.choice([0, 0, 1, 2])):
            faults.append(self.prng.choice(self.OTHERS))
        faults.append(self.prng.choice(self.CAUSES))
        for fault in faults:
            time.sleep(self.prng.uniform(0, 0.4))
            fault(self)
        return [fault.__name__ for fault in faults]

    def until_saving(self) -> None:
        """Every rank has saved a step of a world that no fault has ended."""
        def ask() -> bool:
            saved = self.newest("saved")
            return len(saved) == len(RANKS) and all(
                line.generation > self.past for line in saved.values())
        eventually(ask, f"all ranks save in a world after {self.past}", job=self.job)

    def generation(self) -> int:
        return max(line.generation for line in self.newest("began").values())


def whole_before(job: Job, generation: int) -> int:
    """The newest step that every rank had in memory before this world: saved there or restored."""
    held = []
    for rank in RANKS:
        steps = [line.number for line in said_by(job, rank)
                 if line.generation < generation and line.what in ("saved", "restored")]
        held.append(steps[-1] if steps else -1)
    return min(held)


def last_words(job: Job, generation: int) -> dict[int, list[Said]]:
    return {rank: [line for line in said_by(job, rank) if line.generation <= generation][-6:]
            for rank in RANKS}


def judge(crashes: Crashes) -> list[dict[str, object]]:
    """Each restore of the job, compared with what was there. That it was exact, ranks have said."""
    job, rows = crashes.job, []
    worlds: dict[int, dict[int, Said]] = {}
    for rank in RANKS:
        for line in said_by(job, rank):
            if line.what == "restored":
                worlds.setdefault(line.generation, {})[rank] = line
    for generation, ranks in sorted(worlds.items()):
        steps = {line.number for line in ranks.values()}
        assert len(steps) == 1, f"world {generation} restored several steps: {ranks}"
        whole, (step,) = whole_before(job, generation), steps
        whole = min(whole, crashes.stored.get(generation, whole))
        assert step >= whole, (f"world {generation} restored {step}, though {whole} was whole: "
                               f"{last_words(job, generation)}; stderr:\n{job.stderr}")
        sources = sorted({line.rest.rpartition("from ")[2].split(",")[0]
                          for line in ranks.values()})
        rows.append({"generation": generation, "restored": step, "whole": whole,
                     "sources": sources, "damaged": generation in crashes.stored})
    return rows


@pytest.mark.parametrize("number", range((CRASHES + CRASHES_A_JOB - 1) // CRASHES_A_JOB))
def test_what_comes_back_is_exact_and_the_newest(number: int, job: Job) -> None:
    seed = FIRST_SEED + number
    crashes = Crashes(job, seed)
    crashes.start()
    crashes.until_saving()
    schedules = []
    for _ in range(CRASHES_A_JOB):
        before = crashes.past = crashes.generation()
        stored = crashes.newest_stored()
        schedules.append(crashes.schedule())
        print(f"world {before}:", *schedules[-1])  # shown when the test fails
        crashes.until_saving()
        if crashes.is_damaged:
            crashes.stored |= dict.fromkeys(range(before + 1, crashes.generation() + 1), stored)
        crashes.is_damaged = False
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    last = int((job.state / "end").read_text())
    assert {line.number for line in crashes.newest("ended").values()} == {last}
    rows = judge(crashes)
    assert job.command("ckpt", "verify", str(job.directory / "ckpt")).returncode == 0
    if SAMPLES:
        with open(SAMPLES, "a") as file:
            about = {"seed": seed, "size": crashes.size, "every": crashes.every}
            print(json.dumps({**about, "schedules": schedules, "restores": rows}), file=file)
