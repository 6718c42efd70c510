"""Stages of a pipeline under one name: no other number of ranks goes on from their checkpoints."""

from __future__ import annotations

import pytest
from job import SCRIPTS, TOGETHER, Job

pytest.importorskip("torch", reason="the stages are torch's")
STAGES = SCRIPTS / "stages.py"


def run(one: Job, ranks: int, folder: str, steps: int) -> int:
    flags = ["--standalone", "--nproc-per-node", str(ranks), "--max-restarts", "0"]
    one.be_patient().start(flags, [str(STAGES), folder, str(steps)])
    return one.wait()


def test_another_number_of_ranks_is_refused_by_name(job: Job, make_job) -> None:
    folder = str(job.directory / "ckpt")
    assert run(job, 2, folder, 3) == 0, job.stderr
    for ranks in (1, 3):
        other = make_job(f"with{ranks}")
        assert run(other, ranks, folder, 5) == 1, other.stderr
        said = f"saved by 2 ranks, cannot be restored by {ranks}"
        for word in (said, "stage.weight", "optimizer.state.stage.weight.momentum_buffer"):
            assert word in other.stderr, word
    again = make_job("with2")
    assert run(again, 2, folder, 5) == 0, again.stderr
    assert "rank 1 of 2 starts at 3 with" in again.stdout


def test_a_job_that_lost_a_node_waits_for_the_same_number_of_ranks(job: Job) -> None:
    nodes = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "1", "--nnodes", "1:2"]
    job.be_patient().env |= TOGETHER
    job.start([*nodes, "--replace-nodes", "off"],
              [str(STAGES), str(job.directory / "ckpt"), "100000"])
    before = job.until_stepping(2, beyond=5)
    job.until_event("checkpoint_committed")
    job.kill_node(before[1]["node"])
    job.until_event("node_lost")
    job.until_event("wait_began")
    (waits, *_) = [event["sentence"] for event in job.events("wait_began")]
    assert "each rank has parameters of its own, so that only 2 ranks can go on" in waits
    assert all("2 ranks" in event["sentence"] for event in job.events("world_formed"))
