"""The actors that Ray places: one for the master, one for each node.

Each has one child, `paceline run` under a guard (`guard.py`). The actor is never restarted by Ray:
the master decides what becomes of a node.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.__main__ import command
from paceline.integrations.ray.calls import head_address, ray_node
from paceline.integrations.ray.commands import Commands, Piece
from paceline.integrations.ray.decide import NodeId
from paceline.integrations.ray.directory import make_directory, write_secrets
from paceline.integrations.ray.forwarder import Forwarder
from paceline.integrations.ray.head import Head, can_come_back, stop_seconds
from paceline.integrations.ray.spec import GRACE_SECONDS, JobSpec, master_line, node_line
from paceline.integrations.ray.store import Store

_TAIL_BYTES = 4096
# How often a master looks whether another one has been started.
_TERM_SECONDS = 1.0
# How often a master looks whether Ray's head answers.
_HEAD_SECONDS = 2.0
# How long a caller's question for more output may wait for it.
_PIECE_SECONDS = 2.0
# Run as a file: the package would import Ray, which takes seconds and 100 MB.
GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Outcome:
    """How the child ended, with the last lines that it wrote."""

    exit_code: int
    tail: str
    report: str = ""
    """The last `ray.train.report` of rank 0, as JSON."""


@dataclass(frozen=True)
class Ran:
    """What a command of `paceline` wrote and returned."""

    exit_code: int
    out: bytes
    err: bytes


class _Host:
    """What masters and nodes share. The methods run in threads of one actor."""

    def __init__(self, spec: JobSpec, part: str, credentials: dict[str, bytes]) -> None:
        self._spec = spec
        self._directory = make_directory(spec.name, part)
        self._run_dir = str(self._directory / "run")
        self._credentials = self._directory / "credentials"
        self._credentials.mkdir(mode=0o700)
        write_secrets(self._credentials, credentials)
        program = command()
        if program is None:
            raise RuntimeError("the program `paceline` is missing beside this interpreter")
        self._program = program
        self._report = self._directory / "report.json"
        self._output = self._directory / "output"
        self._ended = threading.Event()
        self._code = 0
        self._commands = Commands()

    def _start(self, words: list[str], environment: dict[str, str]) -> None:
        # The actor keeps the write end open, and nobody else: the guard and its child close it.
        guard_end, self._lifeline = os.pipe()
        variables = os.environ | self._spec.environment | environment | {
            "PACELINE_GRACE_SECONDS": str(GRACE_SECONDS),
            "PACELINE_LAUNCH_PYTHON": sys.executable,
            "PACELINE_RAY_REPORT": str(self._report),
            "PACELINE_RAY_JOB": self._spec.name,
            # Several nodes may share a host, and a starter that all of them use would end with one.
            "PACELINE_RUNTIME_DIR": str(self._directory / "runtime"),
        }
        with open(self._output, "ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-P", str(GUARD), str(guard_end), str(self._credentials),
                 self._program, *words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=variables, pass_fds=(guard_end,), start_new_session=True)
        os.close(guard_end)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self._code = self._guard.wait()
        self._ended.set()

    def wait(self) -> Outcome:
        """Return when the child and all its descendants have ended."""
        self._ended.wait()
        report = self._report.read_text() if self._report.exists() else ""
        return Outcome(self._code, self._tail(), report)

    def _tail(self) -> str:
        with open(self._output, "rb") as output:
            output.seek(0, os.SEEK_END)
            output.seek(max(0, output.tell() - _TAIL_BYTES))
            return output.read().decode(errors="replace")

    def ray_node(self) -> str:
        """Ray's id of the node on which this actor is."""
        return ray_node()

    def leave(self) -> None:
        """Ask the child to end, as a platform does that takes its host away."""
        with suppress(ProcessLookupError):
            self._guard.send_signal(signal.SIGTERM)

    def run(self, words: list[str]) -> Ran:
        """Run `paceline WORDS` about this host's part of the job."""
        done = subprocess.run([self._program, *words, "--job", self._run_dir],
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def begin(self, words: list[str], environment: dict[str, str]) -> int:
        """Start `paceline WORDS` about this host's part of the job, and return its number."""
        return self._commands.begin([self._program, *words, "--job", self._run_dir], environment)

    def read(self, number: int) -> Piece:
        """What that command has written since the last call. May wait for it."""
        return self._commands.read(number, _PIECE_SECONDS)

    def interrupt(self, number: int) -> None:
        """End that command, as Ctrl-C does."""
        self._commands.interrupt(number)


class Master(_Host):
    """The job's master of one term."""

    def __init__(self, spec: JobSpec, credentials: dict[str, bytes], term: int, survivors: int,
                 memo: str) -> None:
        super().__init__(spec, f"master {term}", credentials)
        self._address = f"{_own_address()}:{_free_port()}"
        port = int(self._address.rpartition(":")[2])
        variables = {"PACELINE_MASTER_TERM": str(term),
                     "PACELINE_MASTER_SURVIVORS": str(survivors)}
        if memo:
            variables["PACELINE_MASTER_MEMO"] = memo
        self._start(master_line(spec, str(self._credentials), self._run_dir, port), variables)
        threading.Thread(target=self._end_if_replaced, args=(term,), daemon=True).start()
        threading.Thread(target=self._end_with_head, daemon=True).start()

    def _end_if_replaced(self, term: int) -> None:
        """End this process when the adapter has asked for a master of a higher term.

        Ray ends the actors of a dead raylet, but only by that raylet's pid. They live on if the
        raylet is a zombie, as in a container whose first process waits for nobody. They also live
        on if Ray only took the raylet for dead.
        """
        store = Store(self._spec.name)
        while True:
            time.sleep(_TERM_SECONDS)
            with suppress(Exception):  # Ray's head may be away
                if int(store.read_json("term", 0)) > term:
                    os._exit(0)  # the guard ends the master

    def _end_with_head(self) -> None:
        """Stop the job while its nodes still run, if Ray's head will not come back.

        Ray ends their actors a little later. A job that was stopped has its newest state in
        storage, and one that was killed may not have it.
        """
        is_known = False
        while not is_known:
            with suppress(Exception):  # the head may be away already
                if can_come_back():
                    return
                is_known = True
            time.sleep(_HEAD_SECONDS)
        head = Head(head_address())
        while (away := head.away_seconds()) < stop_seconds():
            time.sleep(_HEAD_SECONDS)
        with open(self._output, "ab") as output:
            output.write(f"paceline: Ray's head at {head.address} has not answered for {away:.0f} "
                         "s, and has no store from which another one could go on: the job is "
                         "stopped\n".encode())
        # Not by a signal: for this master that is the loss of its host, and no end of the job.
        if self.run(["stop"]).exit_code != 0:
            self.leave()

    def address(self) -> str:
        """HOST:PORT at which the master listens, or will in a moment."""
        return self._address


class Node(_Host):
    """One node of the job."""

    def __init__(self, spec: JobSpec, credentials: dict[str, bytes], node: NodeId, master: str,
                 files: dict[str, bytes]) -> None:
        super().__init__(spec, f"{node.name} {node.incarnation}", credentials)
        for name, content in files.items():
            (self._directory / name).write_bytes(content)
        self._forwarder = Forwarder(master)
        variables = {"PACELINE_RAY_FILES": str(self._directory)}
        self._start(node_line(spec, node, str(self._credentials), self._run_dir,
                              port=self._forwarder.port, own_address=_own_address()), variables)

    def point_to(self, master: str) -> None:
        """The master has moved to this HOST:PORT."""
        self._forwarder.point_to(master)


def _own_address() -> str:
    from ray.util import get_node_ip_address

    return get_node_ip_address()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
