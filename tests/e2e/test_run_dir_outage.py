"""A run directory whose disk answers nobody: the ranks train, and nobody is blamed afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually
from test_stalled_disk import Disk, disk, frozen, pytestmark

from paceline import _native

__all__ = ["disk", "pytestmark"]
pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 2
SCRIPT = str(SCRIPTS / "hang_cases.py")
# In place of the times after which a rank is acted on.
ACT_AFTER = "4s"
LOST_AFTER = "6s"
STANDS_STILL_S = 10.0  # far more than these times


def steps_of(job: Job) -> Callable[[], int]:
    """Asks for the steps of the slowest rank. The rings are in memory, and the master is not asked.

    A ring counts the steps after the first 20.
    """
    rings = Path(f"/dev/shm/paceline-{os.getuid()}") / job.card["id"] / "node0"

    def ask() -> int:
        paths = [path for rank in range(RANKS) for path in rings.glob(f"rank-{rank}.*.ring")]
        if len(paths) < RANKS:
            return 0  # a rank has not made its ring yet
        readings = [_native.read_ring(path.read_bytes()) for path in paths]
        return min(int(str(reading["steps"])) for reading in readings)

    return ask


def test_ranks_train_while_the_run_directory_stands_still(job: Job, disk: Disk) -> None:
    job.run_dir = disk.path / "run"
    job.env |= {"PACELINE_HANG_ACT_AFTER": ACT_AFTER, "PACELINE_TIMERS_LOST_AFTER": LOST_AFTER,
                "PACELINE_TIMERS_LOST_AFTER_MAX": LOST_AFTER}
    job.start(["--standalone", "--nproc-per-node", str(RANKS)],
              [SCRIPT, "--case", "none", "--enough", str(job.directory / "enough")])
    eventually(lambda: len(job.ranks()) == RANKS, "the ranks have started", job=job)
    steps = steps_of(job)
    eventually(lambda: steps() > 0, "the ranks train", job=job)
    with frozen(disk):
        end = time.monotonic() + STANDS_STILL_S
        eventually(lambda: time.monotonic() > end, "the disk stands still for long")
        before = eventually(steps, "a whole reading of the rings")  # 0: one was being written
        eventually(lambda: steps() > before + 20, "the ranks go on", job=job)
    (job.directory / "enough").touch()
    assert job.wait() == 0, job.stderr
    assert job.events("hang_judged") == []
    assert job.events("rank_failed") == []
    assert len(job.events("world_formed")) == 1
