"""Scripts that fail before their first step: failures that come again at each start are not tried
again and again."""

from __future__ import annotations

from job import Job


def run(job: Job, text: str) -> str:
    """Returns what `why` says afterwards."""
    script = job.directory / "train.py"
    script.write_text(text)
    job.be_patient().start(["--standalone", "--nproc-per-node", "1"], [str(script)])
    assert job.wait() == 1, job.stderr
    return job.command("why", "--job", str(job.run_dir)).stdout


def test_a_script_that_cannot_be_compiled_is_tried_once(job: Job) -> None:
    why = run(job, "def f(:\n")
    assert len(job.events("world_formed")) == 1, job.stderr
    assert why.startswith("rank 0 on node0 failed: SyntaxError: invalid syntax (train.py:1)"), why


def test_an_exception_of_the_script_is_tried_twice(job: Job) -> None:
    why = run(job, "{}['labels']\n")
    assert len(job.events("world_formed")) == 2, job.stderr
    lines = why.splitlines()
    assert lines[0].startswith("rank 0 on node0 failed: KeyError: 'labels' (train.py:1)"), why
    stop = ("then: paceline ends the job with exit code 1: "
            "your script fails before its first step: KeyError")
    assert lines[1].startswith(stop), why
    assert "now: the job has ended with exit code 1" in lines, why
