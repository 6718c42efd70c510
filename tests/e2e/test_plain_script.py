"""Scripts that save and resume by themselves, and tell their launcher nothing."""

from __future__ import annotations

import pytest
from job import SCRIPTS, Job

pytest.importorskip("torch", reason="the scripts train with torch")


def start(job: Job, *args: str) -> None:
    script = [str(SCRIPTS / "plain.py"), "--dir", str(job.state), *args]
    job.be_patient().start(["--standalone", "--nproc-per-node", "1"], script)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_a_script_that_comes_further_outlives_any_number_of_kills(
    job: Job, optimizer: str
) -> None:
    """AdamW's own step shows it; SGD has none, and there the finished checkpoint does."""
    start(job, "--steps", "60", "--optimizer", optimizer, "--kill-after", "8")
    assert job.wait() == 0, job.stderr
    assert len(job.events("rank_failed")) == 11
    assert (job.state / "done").exists()
    evidence = {event["details"].get("evidence", "") for event in job.events("progress_made")}
    assert evidence == ({""} if optimizer == "AdamW" else {"a rank finished a checkpoint"})


def test_a_script_that_comes_no_further_is_stopped(job: Job) -> None:
    """It saves every 50 steps and is killed after 8."""
    start(job, "--steps", "60", "--kill-after", "8", "--save-every", "50")
    assert job.wait() == 1
    assert len(job.events("rank_failed")) == 5, job.stderr


def test_a_file_does_not_excuse_the_same_exception_at_the_same_step(job: Job) -> None:
    """It writes its checkpoint in each attempt, and does not load it."""
    start(job, "--steps", "60", "--raise-after", "3", "--save-every", "2", "--forget")
    assert job.wait() == 1
    assert len(job.events("rank_failed")) == 3, job.stderr
