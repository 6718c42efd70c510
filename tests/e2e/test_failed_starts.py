"""Scripts that fail before their first step: failures that come again at each start are not tried
again and again."""

from __future__ import annotations

from job import Job


def run(job: Job, text: str) -> None:
    script = job.directory / "train.py"
    script.write_text(text)
    job.be_patient().start(["--standalone", "--nproc-per-node", "1"], [str(script)])
    assert job.wait() == 1, job.stderr


def test_a_script_that_cannot_be_compiled_is_tried_once(job: Job) -> None:
    run(job, "def f(:\n")
    assert len(job.events("world_formed")) == 1, job.stderr


def test_an_exception_of_the_script_is_tried_twice(job: Job) -> None:
    run(job, "{}['labels']\n")
    assert len(job.events("world_formed")) == 2, job.stderr
