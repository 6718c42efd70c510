"""One job of the real binary, as a user runs it, and what a test may ask and do to it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from paceline._base.processes import start_time, stat_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
DEADLINE_S = 120.0  # generous: only a broken build reaches it
GRACE_S = 20.0  # for what ends by itself within a second or two
KEEP_WARM = "30s"
# For tests in which no node may be lost: a process that waits for its turn on a busy machine is not
# gone. Where a node is ended on purpose, its launcher tells so at once.
PATIENT = {"PACELINE_TIMERS_LOST_AFTER": "60s", "PACELINE_TIMERS_LOST_AFTER_MAX": "60s",
           "PACELINE_TIMERS_REATTACH_WINDOW": "60s"}
# For tests whose nodes may be fewer than they start: the first world waits for the late ones.
TOGETHER = {"PACELINE_TIMERS_JOIN_WINDOW": "60s"}
CTRL_C_MAX = 3  # the first asks, the second forces, the third kills everything of the host
AGAIN_S = 1.2  # a Ctrl-C within one second of the one before it is the same one
JsonDict = dict[str, Any]
T = TypeVar("T")


def binary() -> Path:
    given = os.environ.get("PACELINE_BIN")
    if given:
        return Path(given)
    for candidate in (".venv/bin/paceline", "build/dev/src/paceline/cli/paceline"):
        if (ROOT / candidate).exists():
            return ROOT / candidate
    raise FileNotFoundError("no paceline binary: set PACELINE_BIN, or run make build")


def eventually(ask: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S,
               job: Job | None = None) -> T:
    """The first true answer. Looks again after a pause, until the deadline.

    A failure shows what the job had said by then.
    """
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            said = "" if job is None else f"; stderr:\n{job.stderr}"
            raise AssertionError(f"did not happen in {deadline_s} s: {what}{said}")
        pause.wait(0.03)


def lives(pid: int) -> bool:
    fields = stat_of(pid)
    return bool(fields) and fields[0] not in "ZX"


def processes_of(job_id: str, run_dir: Path) -> dict[int, str]:
    """Living processes of a job, zombies left out: pid and command line.

    A rank that was forked shows its starter's environment, so it is known by what it writes to:
    ranks, and what they start, have the log files of the run directory as their stdout or stderr.
    """
    found: dict[int, str] = {}
    named = f"PACELINE_JOB_ID={job_id}".encode()
    logs = f"{run_dir.resolve()}/"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            outputs = [os.readlink(entry / "fd" / str(fd)) for fd in (1, 2)]
            environment = (entry / "environ").read_bytes().split(b"\0")
            if named in environment or any(path.startswith(logs) for path in outputs):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(entry.name)] = command
        except OSError:
            continue
    return found


def shared_runtime_dir() -> Path:
    """Of all jobs of this process that do not care: starters with torch stay warm in it."""
    return Path(tempfile.gettempdir()) / f"pl-warm-{os.getpid()}"


def end_shared_starters() -> None:
    for info in shared_runtime_dir().glob("starters/*/info.json"):
        with suppress(OSError):  # it may leave while it is read
            starter = json.loads(info.read_text())
            if start_time(starter["pid"]) == starter["start_time"]:  # not yet another process
                os.kill(starter["pid"], signal.SIGTERM)
    shutil.rmtree(shared_runtime_dir(), ignore_errors=True)


def runtime_dir(directory: Path) -> Path:
    """Shared by the jobs of one test. pytest's own folders are too long for a socket's path."""
    name = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"pl-{name}"


class Job:
    """A `paceline run` in a directory of its own.

    A starter with torch costs three seconds of CPU, so jobs share the runtime directory of this
    process and its starters, unless `is_alone`.
    """

    made: ClassVar[list[Job]] = []  # by this test

    def __init__(self, directory: Path, name: str = "run", env: Mapping[str, str] | None = None,
                 is_alone: bool = False):
        self.directory = directory
        self.run_dir = directory / name
        self.state = directory / f"{name}-state"
        self.state.mkdir(parents=True, exist_ok=True)
        runtime = runtime_dir(directory) if is_alone else shared_runtime_dir()
        # A starter serves jobs of its own environment; pytest's has the name of each test.
        usual = {name: value for name, value in os.environ.items()
                 if not name.startswith("PYTEST_")}
        warm = {} if is_alone else {"PACELINE_LAUNCH_KEEP_WARM": KEEP_WARM}
        self.env = {**usual, **warm, "PACELINE_RUNTIME_DIR": str(runtime), **(env or {})}
        self.stdout_path = directory / f"{name}.stdout"
        self.stderr_path = directory / f"{name}.stderr"
        self.launcher: subprocess.Popen[bytes] | None = None
        Job.made.append(self)

    # ---- starting ----
    def start(self, flags: Sequence[str], script: Sequence[str], prefix: Sequence[str] = ()) -> Job:
        command = [*prefix, str(binary()), "run", "--run-dir", str(self.run_dir), *flags, *script]
        with open(self.stdout_path, "ab") as out, open(self.stderr_path, "ab") as err:
            self.launcher = subprocess.Popen(
                command, cwd=self.directory, env=self.env, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL)
        return self

    def be_patient(self) -> Job:
        self.env = {**self.env, **PATIENT}
        return self

    def let_go(self) -> None:
        """Ends what a script's `--hold STEP` holds."""
        (self.state / "go").touch()

    def start_steps(self, flags: Sequence[str], *args: str, steps: int = 400) -> Job:
        return self.start(flags, [*self.steps_script(self.state, steps), *args])

    @staticmethod
    def steps_script(state: Path, steps: int) -> list[str]:
        return [str(SCRIPTS / "steps.py"), "--dir", str(state), "--steps", str(steps)]

    @staticmethod
    def command_line(*words: str) -> list[str]:
        return [str(binary()), *words]

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        assert self.launcher is not None
        return self.launcher.wait(deadline_s)

    # ---- asking ----
    @property
    def stdout(self) -> str:
        return self.stdout_path.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    @property
    def card(self) -> JsonDict:
        return json.loads((self.run_dir / "job.json").read_text())

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(binary()), *words], cwd=self.directory, env=self.env,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def status(self) -> JsonDict | None:
        if not (self.run_dir / "job.json").exists():
            return None
        done = self.command("status", "--json", "--job", str(self.run_dir))
        try:
            status = json.loads(done.stdout)
        except json.JSONDecodeError:
            return None
        return status if status.get("schema") == "paceline.status/1" else None

    def events(self, kind: str | None = None) -> list[JsonDict]:
        done = self.command("events", "--json", "--job", str(self.run_dir))
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        events = [row for row in rows if row["schema"] == "paceline.event/1"]
        return [event for event in events if kind is None or event["kind"] == kind]

    def ranks(self) -> dict[int, JsonDict]:
        """Those that have a process, of nodes that are not lost: what those still have is of a
        world that is past."""
        status = self.status() or {"nodes": []}
        return {rank["rank"]: {**rank, "node": node["name"]}
                for node in status["nodes"] if node["state"] != "lost"
                for rank in node["ranks"] if rank["state"] != "exited" and rank["pid"]}

    def rank_pids(self, node: str) -> list[int]:
        """Of the node's ranks, as soon as each of them has a process."""
        def ask() -> tuple[list[int]] | None:
            known = (self.node(node) or {"ranks": []})["ranks"]
            pids = [rank["pid"] for rank in known if rank["state"] != "exited"]
            return (pids,) if all(pids) else None
        (pids,) = eventually(ask, f"the ranks of {node} have started", job=self)
        return pids

    def node(self, name: str) -> JsonDict | None:
        status = self.status() or {"nodes": []}
        return next((node for node in status["nodes"] if node["name"] == name), None)

    def step(self) -> int:
        status = self.status()
        value = status["job"]["step"] if status else None
        return -1 if value is None else int(value)

    # ---- waiting ----
    def until_stepping(self, count: int, beyond: int = 0) -> dict[int, JsonDict]:
        def ask() -> dict[int, JsonDict] | None:
            ranks = self.ranks()
            ready = [rank for rank in ranks.values()
                     if rank["state"] == "stepping" and (rank["step"] or 0) >= beyond]
            return ranks if len(ready) == count else None
        return eventually(ask, f"{count} ranks beyond step {beyond}", job=self)

    def until_watched(self) -> None:
        """Until the newest launcher watches over the master and each agent."""
        def ask() -> bool:
            assert self.launcher is not None
            count = 0
            for entry in Path(f"/proc/{self.launcher.pid}/fd").iterdir():
                with suppress(OSError):  # closed since it was listed
                    count += "pidfd" in os.readlink(entry)
            return count > len(self.card["nodes"])
        eventually(ask, "the launcher watches over the job", job=self)

    def until_event(self, kind: str, count: int = 1) -> list[JsonDict]:
        def ask() -> list[JsonDict] | None:
            found = self.events(kind)
            return found if len(found) >= count else None
        return eventually(ask, f"{count} × {kind}", job=self)

    # ---- doing ----
    def agent_pid(self, node: str) -> int:
        return int(json.loads((self.run_dir / "nodes" / node / "agent.json").read_text())["pid"])

    def kill_node(self, node: str) -> None:
        """What a lost machine looks like: the agent and its ranks are gone at once."""
        ranks = self.rank_pids(node)
        agent = self.agent_pid(node)
        os.kill(agent, signal.SIGSTOP)  # it must not see its ranks die before it
        for pid in ranks:
            os.killpg(pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)

    @contextmanager
    def frozen(self, node: str) -> Iterator[list[int]]:
        """A machine that goes silent: agent and ranks stand still, until the block ends."""
        pids = [self.agent_pid(node), *self.rank_pids(node)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield pids
        finally:
            for pid in reversed(pids):  # the agent last: ranks go on before anybody stops them
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def steps_done(self, rank: int) -> list[tuple[int, int]]:
        """(generation, step) in the order in which the rank made them."""
        path = self.state / f"rank{rank}.steps"
        pairs = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(generation), int(step)) for generation, step in pairs]

    def leftovers(self) -> dict[int, str]:
        # A shared starter has the name of the job that began it, and is meant to stay.
        shared = f" --info {shared_runtime_dir()}/"
        found = processes_of(self.card["id"], self.run_dir)
        return {pid: command for pid, command in found.items() if shared not in command}

    def stop_by_force(self) -> None:
        """Ctrl-C, and once more a second after it was taken."""
        assert self.launcher is not None
        self.launcher.send_signal(signal.SIGINT)
        eventually(lambda: "Stopping, by " in self.stderr, "the first Ctrl-C is taken", job=self)
        time.sleep(AGAIN_S)
        self.launcher.send_signal(signal.SIGINT)

    def end(self) -> dict[int, str]:
        """Ends the job as its user can. Returns what lives on all the same, and kills that."""
        for _ in range(CTRL_C_MAX):
            if self.launcher is None or self.launcher.poll() is not None:
                break
            self.launcher.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.launcher.wait(GRACE_S)
        if self.launcher is not None and self.launcher.poll() is None:
            self.launcher.kill()
            self.launcher.wait()
        if not (self.run_dir / "job.json").exists():
            return {}
        if self.leftovers():
            # Nobody was told to end it: a detached job, or the test killed its launcher.
            self.command("stop", "--force", "--job", str(self.run_dir))
        with suppress(AssertionError):
            eventually(lambda: not self.leftovers(), "nothing of the job lives", GRACE_S)
        orphans = self.leftovers()
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return orphans

    def forget_memory(self) -> None:
        """Removes what an ended job keeps in memory, as one that ended with exit code 11 does."""
        if (self.run_dir / "job.json").exists():
            shutil.rmtree(f"/dev/shm/paceline-{os.getuid()}/{self.card['id']}", ignore_errors=True)
