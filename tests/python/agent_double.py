"""Plays the agent: starts a starter and speaks its socket.

Waits are on events, with a generous deadline.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _native

DEADLINE_SECONDS = 120.0


class Peer:
    """One connection to a starter, blocking."""

    def __init__(
        self,
        path: Path,
        job: str = "job",
        node: str = "node0",
        hello: bool = True,
        orphan_after_ms: int | None = None,
    ) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.connect(str(path))
        self.kept: list[dict[str, Any]] = []
        if hello:
            self.send(
                type="hello", protocol=1, job=job, node=node, orphan_after_ms=orphan_after_ms
            )
            self.ready = self.wait("ready")

    def send(self, **fields: Any) -> None:
        body = json.dumps(fields).encode()
        self.raw(struct.pack("<I", len(body)) + body)

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> dict[str, Any] | None:
        """The next message; None at the end of the connection."""
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(struct.unpack("<I", head)[0])
        return None if body is None else json.loads(body)

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            data += chunk
        return data

    def wait(self, kind: str, **having: Any) -> dict[str, Any]:
        """The first message of `kind` with those fields; others are kept for later calls."""

        def fits(message: dict[str, Any]) -> bool:
            return message["type"] == kind and all(message[k] == v for k, v in having.items())

        for message in self.kept:
            if fits(message):
                self.kept.remove(message)
                return message
        while True:
            message = self.read()
            assert message is not None, f"the starter hung up before {kind}"
            if fits(message):
                return message
            self.kept.append(message)

    def close(self) -> None:
        self.socket.close()


@dataclass
class Outcome:
    """How a rank went."""

    status: int  # as wait4 gives it
    out: str
    err: str
    spawned: dict[str, Any]
    exited: dict[str, Any]


@dataclass
class Starter:
    """A starter process and the folder with its files."""

    process: subprocess.Popen[bytes]
    folder: Path
    peer: Peer = field(init=False)
    next_id: int = 0

    @property
    def socket_path(self) -> Path:
        return self.folder / "sock"

    @property
    def page_path(self) -> Path:
        return self.folder / "page"

    def slot(self, index: int = 0) -> dict[str, Any]:
        """One slot of the page."""
        slots: Any = _native.read_page(str(self.page_path))["slots"]
        return slots[index]

    def spawn(self, entry: str, target: str, *args: str, **more: Any) -> dict[str, Any]:
        """Ask for a rank; returns `spawned` or `spawn_failed`."""
        peer = self.ask_spawn(entry, target, *args, **more)
        while True:
            reply = peer.read()
            assert reply is not None
            if reply.get("id") == self.next_id:
                return reply
            peer.kept.append(reply)

    def ask_spawn(self, entry: str, target: str, *args: str, **more: Any) -> Peer:
        """Ask for a rank, and do not wait for the answer, which comes to the peer returned."""
        self.next_id += 1
        rank = more.pop("rank", 0)
        env = plain_environment() | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4"}
        message: dict[str, Any] = {
            "id": self.next_id,
            "generation": 1,
            "rank": rank,
            "local_rank": rank,
            "slot": rank,
            "page": str(self.page_path),
            "entry": entry,
            "target": target,
            "args": list(args),
            "env": env | more.pop("env", {}),
            "cwd": str(self.folder),
            "stdout": str(self.folder / f"out{self.next_id}"),
            "stderr": str(self.folder / f"err{self.next_id}"),
            "error_file": str(self.folder / f"error{self.next_id}.json"),
            "store_addr": "127.0.0.1",
            "store_port": 0,
            "warm": True,
            "omp_threads": 1,
        }
        peer: Peer = more.pop("peer", None) or self.peer
        peer.send(type="spawn", **(message | more))
        return peer

    def run(self, entry: str, target: str, *args: str, **more: Any) -> Outcome:
        """Run a rank to its end."""
        spawned = self.spawn(entry, target, *args, **more)
        assert spawned["type"] == "spawned", spawned
        exited = self.peer.wait("exited", pid=spawned["pid"])
        number = spawned["id"]
        return Outcome(
            status=exited["wait_status"],
            out=(self.folder / f"out{number}").read_text(),
            err=(self.folder / f"err{number}").read_text(),
            spawned=spawned,
            exited=exited,
        )

    def error_record(self, spawned: dict[str, Any]) -> dict[str, Any]:
        """The error record of a rank."""
        return json.loads((self.folder / f"error{spawned['id']}.json").read_text())


def plain_environment() -> dict[str, str]:
    """The environment of a job in these tests."""
    env = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "PYTHONSAFEPATH"):
        env.pop(name, None)
    return env


def write_page(path: Path, *, job: str = "job", node: str = "node0", slots: int = 4) -> None:
    """What the agent does before it starts anything."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    path.write_bytes(_native.format_page(job, node, boot_id, slots))


@contextmanager
def starter(folder: Path, *options: str, connect: bool = True) -> Iterator[Starter]:
    """A starter with its page, and a connected peer."""
    write_page(folder / "page")
    process = start_starter(folder, *options)
    running = Starter(process, folder)
    try:
        if connect:
            running.peer = Peer(running.socket_path)
        yield running
    finally:
        for slot in range(4):
            state = running.slot(slot)
            if state["state"] == 2:
                kill_group(state["pid"])
        process.terminate()
        process.wait(DEADLINE_SECONDS)


def kill_group(pid: int) -> None:
    """SIGKILL for a rank and its children."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def start_starter(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start one and wait until its socket listens."""
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-m", "paceline._starter", "--socket", str(folder / "sock")]
    with (folder / "starter.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(write_fd), "--cwd", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=plain_environment() | {"XDG_CACHE_HOME": str(folder / "cache")},
            cwd="/",
            pass_fds=[write_fd],
        )
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as ready:
        assert ready.read() == b"1", (folder / "starter.log").read_text()
    return process


def wait_until(condition: Any, what: str) -> None:
    """Poll a condition that no event tells of."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited too long: {what}"
        time.sleep(0.01)
