"""Ends the keepers of a test."""

import contextlib
import os
import select
import shutil
import signal
from pathlib import Path


def end_keepers(runtime: Path, *, keeps_memory: bool = False) -> None:
    """Kill each keeper of that runtime folder. Its memory goes with it, unless that is kept."""
    for lock in runtime.glob("*.lock"):
        socket = str(lock).removesuffix(".lock").encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if b"keeper" in command and socket in command:
                    _end(int(entry.name))
        if not keeps_memory:
            job = lock.name.removesuffix(".sock.lock")
            shutil.rmtree(f"/dev/shm/paceline-{os.getuid()}/{job}", ignore_errors=True)


def _end(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])  # until it has ended
    finally:
        os.close(pidfd)
