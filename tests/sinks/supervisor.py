"""Runs one program, and ends all of it: `supervisor.py DIE_FILE PROGRAM ARGUMENTS…`.

All descendants of the program become children of this process when their parents end (it is a
"subreaper"), in whatever session they are. It ends its own children only. No other process can have
the number of a child that nobody has waited for, so it never signals a foreign process.

The whole program is killed when DIE_FILE appears, or when the process that started this one has
gone. Exit code: that of the program; 128 and the signal's number if a signal ended it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def children() -> list[int]:
    """The processes whose parent is this one."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        if parent == os.getpid():
            found.append(int(name))
    return found


def end_children() -> None:
    """Kills children until there are none: the children of a dead child come to this process."""
    while pids := children():
        for pid in pids:
            assert pid > 1
            assert pid != os.getpid()
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def main(die: Path, command: list[str]) -> int:
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while program.poll() is None and not die.exists() and os.getppid() == parent:
        time.sleep(0.01)
    if program.poll() is None:
        program.kill()
    code = program.wait()
    end_children()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
