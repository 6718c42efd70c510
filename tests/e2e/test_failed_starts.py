"""Scripts that fail before their first step: failures that come again at each start are not tried
again and again."""

from __future__ import annotations

from job import Job

ONE = ["--standalone", "--nproc-per-node", "1"]


def run(job: Job, text: str) -> str:
    """Returns what `why` says afterwards."""
    script = job.directory / "train.py"
    script.write_text(text)
    return run_words(job, str(script))


def run_words(job: Job, *words: str) -> str:
    job.be_patient().start(ONE, words)
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
    assert lines[1].startswith("class: script_error (cause): "), why
    stop = ("then: paceline ends the job with exit code 1: "
            "your script fails before its first step: KeyError")
    assert lines[2].startswith(stop), why
    assert "now: the job has ended with exit code 1" in lines, why
    waited = job.command("wait", "--job", str(job.run_dir))
    end = f"{job.card['id']} has ended with exit code 1: your script fails before its first step"
    assert waited.returncode == 1 and waited.stderr.startswith(end), waited


def test_a_module_that_is_not_there_is_tried_once(job: Job) -> None:
    why = run_words(job, "-m", "nosuch.module")
    assert len(job.events("world_formed")) == 1, job.stderr
    assert why.startswith("rank 0 on node0 failed: ModuleNotFoundError: "), why
    assert "no restart can mend this" in why, why


def test_an_exit_code_before_the_first_step_is_tried_twice(job: Job) -> None:
    why = run(job, "import argparse\n"
                   "parser = argparse.ArgumentParser(prog='train')\n"
                   "parser.add_argument('--lr', required=True)\n"
                   "parser.parse_args()\n")
    assert len(job.events("world_formed")) == 2, job.stderr
    line = "its last line on stderr was: train: error: the following arguments are required: --lr"
    lines = why.splitlines()
    assert lines[0].startswith(
        f"rank 0 on node0 exited with code 2 before its first step; {line}"), why
    stop = f"your script exits with code 2 before its first step (2 times without progress); {line}"
    assert lines[1].startswith("class: bad_arguments (cause): "), why
    assert stop in lines[2], why
