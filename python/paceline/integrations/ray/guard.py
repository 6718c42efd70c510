"""Ends a node's processes when its actor is gone: `python guard.py FD SECRETS PROGRAM ARGS…`.

Ranks outlive their launcher and agent on purpose, and have sessions of their own, so Ray's own
clean-up misses them. The guard is their subreaper: whoever loses its parent becomes the guard's
child. It holds one end of a pipe, FD, whose other end is the actor's. When the actor dies, however
it dies, the kernel closes that end, and the guard kills all its descendants.

Ray kills the children of an actor that dies, but not their children. So the actor's child is not
the guard: it only passes signals to the guard, and the guard's exit code back.

The guard ends with the program's exit code (128 + N for signal N), when no descendant is left, and
removes the directory SECRETS.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

from paceline._base.processes import stat_of

_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_SECONDS = 0.05


def main(arguments: list[str]) -> int:
    """Start the guard, and return its exit code."""
    guard = os.fork()
    if guard == 0:
        return _guard(int(arguments[0]), arguments[1], arguments[2:])
    os.close(int(arguments[0]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: os.kill(guard, got))
    _, status = os.waitpid(guard, 0)
    return _code(os.waitstatus_to_exitcode(status))


def _guard(lifeline: int, secrets: str, program: list[str]) -> int:
    """Run the program until it ends, or until the pipe is closed."""
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    child = subprocess.Popen(program, start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    child_ended = os.pidfd_open(child.pid)
    poller = select.poll()
    poller.register(lifeline, select.POLLIN | select.POLLHUP)
    poller.register(child_ended, select.POLLIN)
    if lifeline in (ready for ready, _ in poller.poll()):
        print("paceline: the actor of this part of the job has ended (Ray lost its raylet, or its "
              "head for good), so its processes are ended", file=sys.stderr, flush=True)
    while kill_descendants():
        time.sleep(_PAUSE_SECONDS)
    shutil.rmtree(secrets, ignore_errors=True)
    return _code(child.wait())


def _code(returned: int) -> int:
    return returned if returned >= 0 else 128 - returned


def kill_descendants() -> int:
    """Send SIGKILL to each living process below this one, and return how many there were."""
    found = descendants_of(os.getpid())
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def descendants_of(top: int) -> list[int]:
    """Living processes below `top`: children, their children, and so on."""
    stats = {int(name): stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    found: list[int] = []
    level = {top}
    while level:
        level = {pid for pid, stat in stats.items() if stat and int(stat[1]) in level}
        found += [pid for pid in level if stats[pid][0] not in "ZX"]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
