"""Ports for processes that a test starts later, and that bind them by their number."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

_FIRST, _COUNT = 10_000, 18_000  # below 29400 and 29500, which launchers take by default
_table: list[IO[str]] = []  # one open file: to close it would give all ports back
_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens; no other test gets it while this process lives.

    To bind port 0, note the number and close the socket leaves the port to anybody: the kernel
    gives it to the next socket that binds port 0 or connects. A process that imports torch binds
    it seconds later. These ports are below the range from which the kernel gives ports.
    """
    if not _table:
        path = Path(tempfile.gettempdir()) / f"paceline-test-ports-{os.getuid()}"
        _table.append(open(path, "a", encoding="utf-8"))  # noqa: SIM115
    begin = os.getpid() * 37 % _COUNT
    for i in range(_COUNT):
        port = _FIRST + (begin + i) % _COUNT
        if port not in _given and _take(port):
            return port
    raise AssertionError(f"no port from {_FIRST} on is free")


def _take(port: int) -> bool:
    try:
        fcntl.lockf(_table[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:  # another test has it
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    _given.add(port)
    return True
