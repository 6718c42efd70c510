"""What several tests look at and one run makes once, however many workers it has."""

import fcntl
import os
from collections.abc import Callable

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """The text of that name. The first worker of this run that asks makes it, and others wait.

    A fixture of a module or a session is made by each worker that has one of its tests. If `make`
    fails, the next one that asks tries it again.
    """
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers of this run
    path = folder / f"{name}.txt"
    with open(folder / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            fresh = folder / f"{name}.new"
            fresh.write_text(make(), encoding="utf-8")
            fresh.rename(path)
    return path.read_text(encoding="utf-8")
