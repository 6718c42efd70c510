"""A real job of two ranks for the tests of this folder, and what they do to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from command import find_binary

DEADLINE_S = 120.0
HOSTILE = "<img src=x onerror=alert(1)> \x1b[31m \u202egnp.exe"
SCRIPT = f"""
import os, time
from pathlib import Path
import paceline as pl
import torch

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight])
for step in range(1_000_000):
    time.sleep(0.02)
    weight.grad = torch.ones(1)
    optimizer.step()  # ranks tell the times of these steps
    if os.environ["RANK"] == "1" and Path("raise").exists():
        Path("raise").unlink()
        raise ValueError({HOSTILE!r})
    if Path("done").exists():
        break
    pl.step(step)
"""


class Live:
    """A job of two ranks, and what a test does to it."""

    def __init__(self, folder: Path, runtime: str) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        (folder / "train.py").write_text(SCRIPT)
        self.env = {name: value for name, value in os.environ.items()
                    if name not in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")}
        self.env |= {"PACELINE_RUNTIME_DIR": runtime, "PACELINE_TIMERS_LOST_AFTER": "60s",
                     "PACELINE_TIMERS_LOST_AFTER_MAX": "60s",
                     "PACELINE_TIMERS_REATTACH_WINDOW": "60s"}
        with open(folder / "out", "wb") as out:
            self.launcher = subprocess.Popen(
                [find_binary(), "run", "--run-dir", str(self.run_dir), "--nproc-per-node", "2",
                 "train.py"], cwd=folder, env=self.env, stdout=out, stderr=out)

    def command(self, *words: str) -> str:
        return subprocess.run([find_binary(), *words], cwd=self.folder, env=self.env,
                              capture_output=True, text=True, check=False).stdout

    def status(self) -> dict[str, Any]:
        try:
            return json.loads(self.command("status", "--json"))
        except json.JSONDecodeError:
            return {}

    def rank_pid(self, rank: int) -> int | None:
        for node in self.status().get("nodes", []):
            for one in node["ranks"]:
                if one["rank"] == rank and one["state"] == "stepping":
                    return one["pid"]
        return None

    def link(self) -> str:
        return self.command("open").strip()

    def master_pid(self) -> int:
        return json.loads((self.run_dir / "job.json").read_text())["master"]["pid"]


def eventually(ask: Callable[[], Any], what: str) -> Any:
    until = time.monotonic() + DEADLINE_S
    while not (answer := ask()):
        assert time.monotonic() < until, what
        time.sleep(0.05)
    return answer
