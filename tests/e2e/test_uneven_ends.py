"""Ranks that end with different last steps: nobody waits for a save that will never be."""

from __future__ import annotations

import pytest
from job import SCRIPTS, Job

pytest.importorskip("torch", reason="the state is torch's")


def test_a_rank_with_one_more_step_hears_which_one_is_stored(job: Job) -> None:
    folder = job.directory / "ckpt"
    script = [str(SCRIPTS / "uneven.py"), str(folder)]
    job.be_patient().start(["--standalone", "--nproc-per-node", "2"], script)
    assert job.wait() == 0, job.stderr
    assert "rank 0 closed" in job.stdout
    why = (
        "not every rank has it: rank 0 has nothing more to save, its last save is step 4; "
        "step 4 is in storage"
    )
    assert f"rank 1: {why}" in job.stdout
    assert (folder / "LATEST").exists()
    assert "rank 0 leaves" in job.stdout and "rank 1 leaves" in job.stdout
