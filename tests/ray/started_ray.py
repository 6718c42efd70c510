"""A Ray whose head and raylets are started by `ray start`, each as a host of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ray_cluster import DEADLINE_S, PACELINE, eventually

RAY = str(Path(sys.executable).with_name("ray"))
UNPACKED = Path(__file__).resolve().parents[2] / "build" / "redis" / "usr"
_STORE_BYTES = 80 << 20
# The head has an address of its own, so that drivers connect to another raylet.
_HEAD_HOST = "127.0.0.2"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HEAD_HOST, 0))
        return probe.getsockname()[1]


class Redis:
    """A real redis-server; the test is skipped if this machine has none."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server") or shutil.which(
            "redis-server", path=str(UNPACKED / "bin"))
        if program is None:
            pytest.skip("A HEAD WITH REDIS NOT TESTED: tools/setup.sh redis")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        libraries = ":".join(str(path) for path in (UNPACKED / "lib").glob("*-linux-gnu"))
        self._process = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
             str(folder)], stdout=subprocess.DEVNULL,
            env=os.environ | {"LD_LIBRARY_PATH": libraries})
        eventually(lambda: answers(self.address), "redis-server answers")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except OSError:
        return False
    return True


class StartedRay:
    """A head without CPUs and `raylets` raylets with one CPU each. No process here is a driver."""

    def __init__(self, raylets: int, redis: Redis | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pr-", dir="/tmp"))  # Ray's sockets lie below
        self._environment = os.environ | (
            {"RAY_REDIS_ADDRESS": redis.address} if redis is not None else {})
        self._port = free_port()
        self._started = 0
        self.address = f"{_HEAD_HOST}:{self._port}"
        self._head = self.start_head()
        self._raylets = [self._start("--address", self.address, "--num-cpus", "1")
                         for _ in range(raylets)]

    def start_head(self) -> subprocess.Popen[bytes]:
        """Start the head, always at the same address."""
        # Left by the head before, on a disk that a new host would not have.
        (self._folder / "ray_current_cluster").unlink(missing_ok=True)
        self._head = self._start(
            "--head", "--port", str(self._port), "--node-ip-address", _HEAD_HOST, "--num-cpus",
            "0", "--include-dashboard", "false", "--temp-dir", str(self._folder))
        return self._head

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        """One after the other: two raylets of one machine may choose the same port."""
        self._started += 1
        log = self._folder / f"started{self._started}"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [RAY, "start", "--block", "--object-store-memory", str(_STORE_BYTES),
                 "--min-worker-port", "0", "--max-worker-port", "0", *words],
                stdout=output, stderr=output, env=self._environment)

        def has_started() -> bool:
            assert process.poll() is None, log.read_text()
            return "Ray runtime started" in log.read_text()

        eventually(has_started, f"ray start {words}")
        return process

    def kill_head(self) -> None:
        """SIGKILL to all processes of the head's host. The kernel ends those that Ray began."""
        below = descendants(self._head.pid)
        for pid in (self._head.pid, *below):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._head.wait()
        eventually(lambda: not answers(self.address), "the head has gone")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`paceline WORDS`, as a user of this cluster types it."""
        return subprocess.run([PACELINE, *words], capture_output=True, text=True, check=False,
                              env=self.environment(), timeout=DEADLINE_S)

    def environment(self) -> dict[str, str]:
        """Of a user's shell."""
        return os.environ | {"RAY_ADDRESS": self.address}

    def close(self) -> None:
        for process in (*self._raylets, self._head):
            for pid in descendants(process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def descendants(top: int) -> list[int]:
    """The processes below this one."""
    from paceline.integrations.ray.guard import descendants_of

    return descendants_of(top)
