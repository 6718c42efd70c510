"""Ends the keepers of a test."""

import contextlib
import os
import select
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_double import wait_until


def end_keepers(runtime: Path, *, keeps_memory: bool = False) -> None:
    """Kill each keeper of that runtime folder. Its memory goes with it, unless that is kept."""
    for lock in runtime.glob("*.lock"):
        for pid in _pids(lock):
            with contextlib.suppress(OSError):
                _end(pid)
        if not keeps_memory:
            job = lock.name.removesuffix(".sock.lock")
            shutil.rmtree(f"/dev/shm/paceline-{os.getuid()}/{job}", ignore_errors=True)


def await_release(directory: Path) -> None:
    """Until the claim of the last Checkpointer is gone: a copy of the directory may not have it.

    A close waits a second for that, and a slow disk takes longer.
    """
    wait_until(lambda: not (directory / ".paceline-claim").exists(), "the claim is removed")


@contextlib.contextmanager
def stopped_keeper() -> Iterator[Callable[[], None]]:
    """The keepers of this test are stopped, until the function that this yields is called."""
    (lock,) = Path(os.environ["PACELINE_RUNTIME_DIR"]).glob("*.lock")
    pids = _pids(lock)
    assert pids

    def go_on() -> None:
        _signal(pids, signal.SIGCONT)

    _signal(pids, signal.SIGSTOP)
    try:
        wait_until(lambda: all(_is_stopped(pid) for pid in pids), "the keeper stops")
        yield go_on
    finally:
        go_on()


def _signal(pids: list[int], number: int) -> None:
    """To those that have not ended: of two keepers that a process started, one ends by itself."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    """Whether each of its threads stands still, or has ended."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        states = {(task / "stat").read_text().rpartition(")")[2].split()[0]
                  for task in tasks.iterdir()}
    except OSError:  # a thread ended while this looked, or all of them have
        return not tasks.exists()
    return states <= {"T", "X", "Z"}


def _pids(lock: Path) -> list[int]:
    """The keepers that were started for the socket of that lock."""
    socket = str(lock).removesuffix(".lock").encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if b"keeper" in command and socket in command:
                found.append(int(entry.name))
    return found


def _end(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])  # until it has ended
    finally:
        os.close(pidfd)
