"""Linux namespaces that nest: one for the whole cluster, and within it one for each node.

A space has its own network, mounts, host name and processes. Its PID 1 does nothing but reap. When
PID 1 is killed, the kernel kills every other process of the space, and mounts and links go with
them. That is how a cluster ends, and how a node loses its power.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
INIT = Path(__file__).with_name("init.sh")
DEADLINE_S = 120.0  # generous: only a broken cluster reaches it


class ClusterError(RuntimeError):
    """A part of the cluster did not do what it always does."""


def eventually(ask: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S,
               pause_s: float = 0.1, said: Callable[[], str] | None = None) -> T:
    """Returns the first true answer of `ask`. Fails with `what` after the deadline.

    The failure shows the text of `said`, for example a log.
    """
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            more = "" if said is None else f"\n{said()}"
            raise ClusterError(f"did not happen in {deadline_s} s: {what}{more}")
        pause.wait(pause_s)


def run(words: list[str], stdin: str = "", timeout_s: float = DEADLINE_S) -> str:
    """Returns what the command printed. Fails with its errors when its exit code is not 0."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False,
                          timeout=timeout_s)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in
                Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def last_lines(path: Path, count: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


class Daemon:
    """A server in a space. `process` is the `nsenter` outside of it, and its child the server."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path):
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """The server's process as this host numbers it."""
        return eventually(lambda: next(iter(children_of(self.process.pid)), 0), self.name)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        if self.is_alive():
            kill(self.pid)
        self.process.wait()

    def until(self, ask: Callable[[], bool], what: str) -> None:
        """Waits for what the server does soon. Fails at once when the server has ended."""
        def answer() -> bool:
            if not self.is_alive():
                raise ClusterError(f"{self.name} ended before: {what}\n{last_lines(self.log)}")
            return ask()
        eventually(answer, what, said=lambda: last_lines(self.log))


class Space:
    """Namespaces with a PID 1, within those of `outer`, or of this host when there is none."""

    def __init__(self, name: str, logs: Path, outer: Space | None = None):
        self.name = name
        self.logs = logs
        self.outer = outer
        self.pid = 0  # of PID 1, as this host numbers it; 0 while there is none
        self.holder: subprocess.Popen[bytes] | None = None
        self.daemons: dict[str, Daemon] = {}

    @property
    def is_open(self) -> bool:
        return self.pid != 0

    def open(self) -> None:
        """Makes the namespaces. Those of this host's space end with the thread that made them."""
        if self.outer is None:
            prefix, depth = ["setpriv", "--pdeathsig", "KILL"], 1
        else:
            prefix, depth = self.outer.inside(), 2
        # Without --kill-child, PID 1 would outlive an `unshare` that is killed.
        words = [*prefix, "unshare", "--net", "--mount", "--uts", "--pid", "--fork",
                 "--mount-proc", "--kill-child", "bash", str(INIT)]
        with open(self.logs / f"{self.name}.log", "ab") as log:
            self.holder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = eventually(lambda: self._find_init(depth), f"PID 1 of {self.name}",
                              pause_s=0.01)
        self.run("hostname", self.name)
        self.run("mount", "--make-rprivate", "/")
        self.run("ip", "link", "set", "lo", "up")

    def _find_init(self, depth: int) -> int:
        """PID 1 once its shell runs; before that, its mounts may not be made yet."""
        assert self.holder is not None
        pid = self.holder.pid
        for _ in range(depth):
            pid = next(iter(children_of(pid)), 0)
            if pid == 0:
                return 0
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return 0
        return pid if command == b"bash\0" + str(INIT).encode() + b"\0" else 0

    def inside(self, *words: str) -> list[str]:
        """The command that runs `words` in all namespaces of this space."""
        assert self.is_open, f"{self.name} is not open"
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", "--uts", "--pid", *words]

    def in_network(self, *words: str) -> list[str]:
        """The command that runs `words` with this space's network, and this host's files."""
        assert self.is_open, f"{self.name} is not open"
        return ["nsenter", "--target", str(self.pid), "--net", *words]

    def run(self, *words: str, stdin: str = "") -> str:
        return run(self.inside(*words), stdin)

    def start(self, name: str, words: list[str], env: Mapping[str, str] | None = None) -> Daemon:
        """Starts a server whose output goes to logs/<name>.log, after that of an earlier one."""
        path = self.logs / f"{name}.log"
        with open(path, "ab") as log:
            process = subprocess.Popen(
                self.inside(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(env or {})})
        self.daemons[name] = Daemon(name, process, path)
        return self.daemons[name]

    def close(self) -> None:
        """Kills PID 1. Returns when no process of the space is left."""
        if not self.is_open:
            return
        kill(self.pid)
        if self.holder is not None:
            self.holder.wait()
        for daemon in self.daemons.values():
            daemon.process.wait()
        self.daemons.clear()
        self.pid = 0


def missing_commands(*names: str) -> list[str]:
    return [name for name in names if shutil.which(name) is None]
