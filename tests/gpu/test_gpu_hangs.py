"""Ranks on a GPU that stand still, or want more memory than it has, and what is said of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from job import Job, eventually

SCRIPTS = Path(__file__).parent / "scripts"
RANKS = 2
MakeJob = Callable[..., Job]


def start(job: Job, device: str, case: str, *flags: str) -> Job:
    words = [str(SCRIPTS / "standing.py"), "--case", case, "--device", device]
    return job.start(["--standalone", "--nproc-per-node", str(RANKS), *flags], words)


def until_step(job: Job, step: int) -> None:
    def are_there() -> bool:
        ranks = job.ranks()
        return len(ranks) == RANKS and all(rank["step_count"] >= step for rank in ranks.values())

    eventually(are_there, f"step {step}", job=job)


def verdict(job: Job) -> str:
    return eventually(lambda: job.events("hang_judged"), "a verdict", job=job)[0]["sentence"]


def test_a_stopped_rank_is_named_and_restarted(make_job: MakeJob, device: str) -> None:
    job = start(make_job(), device, "none")
    until_step(job, 40)
    os.kill(job.ranks()[1]["pid"], signal.SIGSTOP)
    sentence = verdict(job)
    assert re.match(r"Rank 1 on node0 was stopped \(SIGSTOP\) in standing\.py:\d+.*\. "
                    r"Rank 0 waited \d+\.\d s for it in all_reduce \d+ of the world "
                    r"\(standing\.py:\d+\)\.$", sentence), sentence
    assert job.wait() == 0, job.stderr
    assert [event["details"]["how"] for event in job.events("rank_failed")] == ["hung"]


@pytest.mark.parametrize("case", ["kernel", "synchronize"])
def test_a_kernel_that_never_ends(make_job: MakeJob, gpu: str, case: str) -> None:
    """The driver waits for the GPU by asking again and again."""
    job = start(make_job(env={"PACELINE_HANG_ACT_AFTER": "6s"}), gpu, case)
    sentence = verdict(job)
    stacks = job.command("stacks", "--job", str(job.run_dir)).stdout
    assert re.match(r"Rank 1 on node0 is busy in standing\.py:\d+, forward\. Rank 0 waited "
                    r"\d+\.\d s for it in all_reduce \d+ of the world", sentence), sentence
    assert re.search(r"^rank 1 \(pid \d+ on node0\): .*\n(  .*\n)*  \S+standing\.py:\d+  "
                     r"stand_still$", stacks, re.M), stacks
    assert job.wait() == 0, job.stderr
    assert [event["details"]["how"] for event in job.events("rank_failed")] == ["hung"]


def test_a_gpu_that_is_full_is_said(make_job: MakeJob, gpu: str) -> None:
    job = start(make_job(), gpu, "memory", "--max-restarts", "0")
    assert job.wait() == 1, job.stderr
    said = job.command("why", "--job", str(job.run_dir)).stdout
    text = " ".join(said.split())
    assert "OutOfMemoryError" in text, said
    assert "standing.py" in text, said
