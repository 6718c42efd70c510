"""Leaves a child with a session of its own, and a grandchild, and stays: `forks.py DIR`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def tell(name: str) -> None:
    part = Path(sys.argv[1]) / f"{name}.part"
    part.write_text(str(os.getpid()))
    part.replace(part.with_suffix(".pid"))


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        tell("grandchild")
        time.sleep(3600)
    tell("child")
    time.sleep(3600)
tell("rank")
time.sleep(3600)
