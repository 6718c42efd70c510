"""The faults that a rank does to itself, each for real. Most do not return."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

FOREVER = 10**6
_SPARE_BYTES = 256 << 20  # that a rank may still take when its memory is limited
_BLOCK_BYTES = 64 << 20


# ---- ends ----
def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def read_null() -> None:
    ctypes.string_at(0)


def leave() -> NoReturn:
    os._exit(3)


def fail() -> NoReturn:
    raise ValueError("bad batch")


def fail_and_linger() -> NoReturn:
    """Raise, while a thread of the script keeps the process alive."""
    threading.Thread(target=time.sleep, args=(FOREVER,)).start()
    raise ValueError("bad batch")


def use_up_memory() -> None:
    """Take memory until a limit of the process, as `ulimit -v` sets it, is reached."""
    import torch

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = size + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    taken: list[torch.Tensor] = []
    while True:
        taken.append(torch.ones(_BLOCK_BYTES // 4))


def fill_disk() -> None:
    """Write to a device that is always full. The kernel answers as a full disk does."""
    import torch

    with open("/dev/full", "wb") as file:
        torch.save(torch.ones(16), file)


def lose_gpu() -> None:
    """Tell of Xid 79 in the kernel's log, as NVIDIA's driver does, and crash as its library does.

    The line's prefix says that it is an error. The driver is not asked.
    """
    with open("/dev/kmsg", "w") as log:
        log.write(f"<3>NVRM: Xid (PCI:0000:3b:00): 79, pid={os.getpid()}, name=python, "
                  "GPU has fallen off the bus.\n")
    os.abort()


# ---- hangs ----
def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hold_the_interpreter_lock() -> None:
    ctypes.PyDLL(None).sleep(FOREVER)


def loop_in_c() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def deadlock() -> None:
    first, second = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def other() -> None:
        with second:
            both.wait()
            first.acquire()

    threading.Thread(target=other, daemon=True).start()
    with first:
        both.wait()
        second.acquire()


def wait_for_answer(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.recv(1)


def read_fifo(path: Path) -> None:
    with open(path, "rb", buffering=0) as fifo:
        fifo.read(1)


def read_forever(path: Path) -> None:
    """Read a file that gives no byte: a pipe whose other end stays open."""
    os.mkfifo(path)
    keeper = os.open(path, os.O_RDWR)
    read_fifo(path)
    os.close(keeper)


# In any step of any script. Each has the name of its kind of drill.
IN_STEP: dict[str, Callable[[], None]] = {
    "sigkill": kill, "sigsegv": read_null, "sigstop": stop, "exit": leave, "exception": fail,
    "raises_and_lingers": fail_and_linger, "gil_lock": hold_the_interpreter_lock,
    "c_loop": loop_in_c, "deadlock": deadlock, "memory_limit": use_up_memory,
    "disk_full": fill_disk, "xid_79": lose_gpu}
