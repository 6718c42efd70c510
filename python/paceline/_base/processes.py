"""What the kernel says about processes."""

import os
import select
import signal
from contextlib import suppress

_EXITING = 0x4  # PF_EXITING of the kernel's sched.h


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat, beginning with the state; [] if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def start_time(pid: int) -> int:
    """Clock ticks since boot at which `pid` started; 0 if there is no such process."""
    fields = stat_of(pid)
    return int(fields[19]) if fields else 0


def has_gone(pid: int, began: int, patience_s: float) -> bool:
    """Whether the process that started at `began` (clock ticks since boot) has ended.

    A zombie has ended: its parent has only not asked for its status. A process that was sent
    SIGKILL is waited for, because the kernel may need seconds to free the memory of a large one.
    """
    fields = stat_of(pid)
    if not fields or int(fields[19]) != began or fields[0] in "ZX":
        return True
    if not _is_dying(pid, fields):
        return False
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            waiting = select.poll()
            waiting.register(pidfd, select.POLLIN)
            return bool(waiting.poll(patience_s * 1000))
        finally:
            os.close(pidfd)
    return True


def _is_dying(pid: int, fields: list[str]) -> bool:
    if int(fields[6]) & _EXITING:
        return True
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    pending = [line for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(line.split()[1], 16) >> (signal.SIGKILL - 1) & 1 for line in pending)


def parent_of(pid: int) -> int:
    """The pid of its parent; 0 if there is no such process."""
    fields = stat_of(pid)
    return int(fields[1]) if fields else 0
