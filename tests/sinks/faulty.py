"""A sink that kills its program once at a chosen moment. The environment says which.

FAULT is `write` (a task's process kills itself within a part), `before` or `after` (the whole
program dies right before or after its commit). FAULT_MARK is the file that says that it happened.
DIE_FILE asks supervisor.py to kill the whole program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paceline.sinks.writer import Receipt, Sink


class FaultySink(Sink):
    def write(self, epoch: str, writer: str, attempt: str, batches: Iterable[Any]) -> Receipt:
        return super().write(epoch, writer, attempt, _torn(batches))

    def commit(
        self, epoch: str, receipts: Iterable[Receipt], *, after: str | None = None
    ) -> bool:
        if is_now("before"):
            die()
        is_new = super().commit(epoch, receipts, after=after)
        if is_now("after"):
            die()
        return is_new


def is_now(fault: str) -> bool:
    """True once for each run of the program with this fault."""
    if os.environ["FAULT"] != fault:
        return False
    try:
        Path(os.environ["FAULT_MARK"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die() -> None:
    """Stops here, and the whole program is killed: driver, JVM and workers."""
    Path(os.environ["DIE_FILE"]).touch()
    while True:
        signal.pause()


def _torn(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)
        if is_now("write"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch.slice(batch.num_rows // 2)
