"""Versions of tables on servers, while servers and workers are killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from job import Job, eventually
from paceline.serving import Reader, versions
from publish_counts import KEYS
from test_table_servers import kill, snapshots

WORKER = Path(__file__).parent / "publish_counts.py"
SAMPLES = 3_000


def whole_since(directory: Path, version: int) -> bool:
    """Whether a later version has all rows of the table."""
    return any(
        table["name"] == "counts" and table["is_whole"]
        for number in versions.versions_in(directory) if number > version
        for table in versions.read_manifest(directory, number)["tables"])


@pytest.mark.parametrize("victim", ["ps-1", "worker-0"])
def test_the_served_counts_are_exact_although_a_task_is_killed(job: Job, victim: str) -> None:
    directory = job.directory / "serve"
    job.be_patient().start(
        ["--workers", "2", "--ps", "2", "--tables", str(job.directory / "tables")],
        [str(WORKER), "--serve", str(directory), "--samples", str(SAMPLES),
         "--hold", str(job.state / "go")])
    with Reader(directory, every=None) as reader:
        eventually(lambda: reader.refresh() and reader.version().number >= 3,
                   "versions are served", job=job)
        eventually(lambda: snapshots(job, 1) > 0, "ps-1 has a snapshot", job=job)
        known = reader.version().number
        kill(job, victim)
        if victim == "ps-1":
            eventually(lambda: whole_since(directory, known), "a version has all rows", job=job)

        def counts() -> np.ndarray:
            reader.refresh()
            return reader.version().rows("counts", np.arange(KEYS))[:, 0]

        # A lost batch would leave it below for ever, and a doubled one bring it above.
        eventually(lambda: counts().sum() >= SAMPLES, "all samples are served", job=job)
        assert (counts() == SAMPLES // KEYS).all(), counts()
    job.let_go()
    assert job.wait() == 0, job.stderr
    told = job.command("serve", "status", str(directory), "--json")
    assert json.loads(told.stdout)["version"] > known
