"""The global step of a Trainer is the job's own step, also with an optimizer that counts none."""

from __future__ import annotations

import pytest
from job import SCRIPTS, Job


@pytest.mark.parametrize("framework", ["transformers", "lightning"])
def test_a_trainers_step_shows_that_a_job_comes_further(job: Job, framework: str) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed: NOT RUN")
    script = [str(SCRIPTS / "trainer.py"), "--dir", str(job.state), "--framework", framework]
    job.be_patient().start(["--standalone", "--nproc-per-node", "1"],
                           [*script, "--steps", "14", "--kill-after", "7"])
    assert job.wait() == 0, job.stderr
    assert len(job.events("rank_failed")) == 2
    steps = [event["step"] for event in job.events("progress_made")
             if "evidence" not in event["details"]]
    assert max(steps) >= 11, "the second attempt began after step 5"
    assert job.step() == 14
