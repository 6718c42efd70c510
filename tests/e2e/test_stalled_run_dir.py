"""The run directory is on a disk that stops answering. Ranks train on, and nobody is blamed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from frozen_disk import Disk, frozen, needs_disk
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="the script trains with torch")
pytestmark = needs_disk
RANKS = 2
SCRIPT = str(SCRIPTS / "hang_cases.py")  # it prints nothing and writes no file
FROZEN_S = 8.0  # more than a quiet rank may take


@pytest.fixture
def disk(tmp_path: Path, job: Job) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.thaw()
    job.end()  # or it would be written to for ever
    made.unmount()


def steps(job: Job) -> int:
    return min((rank["step_count"] for rank in job.ranks().values()), default=0)


def test_ranks_train_on_while_the_run_directory_does_not_answer(job: Job, disk: Disk) -> None:
    job.run_dir = disk.path / "run"
    job.start(["--standalone", "--nproc-per-node", str(RANKS)], [SCRIPT, "--steps", "900"])
    eventually(lambda: steps(job) >= 25, "step 25", job=job)
    before = steps(job)
    with frozen(disk):
        time.sleep(FROZEN_S)
    after = steps(job)
    assert after > before + 50, (before, after)  # they are not waiting for the disk
    assert job.wait() == 0, job.stderr
    assert job.events("rank_failed") == []
    assert job.events("node_lost") == []
    assert job.events("hang_judged") == []
    assert len(job.events("world_formed")) == 1
