"""Slow ranks and bad losses of real ranks: told while the job trains, and never acted on."""

from __future__ import annotations

import re

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 4


def start(job: Job, *args: str) -> None:
    job.start(["--standalone", "--nproc-per-node", str(RANKS)],
              [str(SCRIPTS / "paced.py"), *args])


@pytest.mark.parametrize("how", [[], ["--by-hand"]], ids=["ddp", "by_hand"])
def test_a_rank_that_works_longer_is_named_and_nothing_else_happens(
    job: Job, how: list[str]
) -> None:
    # 25 steps are three windows. On a busy machine most windows are full of noise, and do not
    # count: slow_test.cc says after how many the rank is named.
    start(job, "--rank", "2", "--factor", "1.5", "--steps", "150", *how)
    told = eventually(lambda: job.events("rank_slow"), "a slow rank", job=job)[0]
    assert re.match(
        r"rank 2 on node0: own work \d+ % longer than its peers'; costs \d+ % of the speed "
        r"\(\d+ steps a day\)$", told["sentence"]), told["sentence"]
    assert told["details"]["ranks"] == "2"
    assert told["details"]["data"] == "false"
    assert 0.25 < float(told["details"]["excess"]) < 0.75
    status = job.status()
    assert status is not None
    assert [slow["ranks"] for slow in status["slow"]] == [[2]]
    assert told["sentence"] in job.command("status", "--job", str(job.run_dir)).stdout
    said = job.command("why", "--job", str(job.run_dir)).stdout
    assert told["sentence"] in " ".join(said.split())
    assert job.wait() == 0, job.stderr
    assert told["sentence"] in job.stderr
    assert len(job.events("rank_slow")) == 1
    assert job.events("rank_failed") == []
    assert len(job.events("world_formed")) == 1


def test_a_slow_loader_is_called_that(job: Job) -> None:
    start(job, "--rank", "1", "--data", "0.03", "--steps", "90")
    told = eventually(lambda: job.events("rank_slow"), "a slow rank", job=job)[0]
    assert told["sentence"].startswith("rank 1 on node0: waits for its data longer"), told
    assert job.wait() == 0, job.stderr


def test_of_equal_ranks_none_is_named(job: Job) -> None:
    start(job, "--steps", "120")
    assert job.wait() == 0, job.stderr
    assert job.events("rank_slow") == []


def test_a_run_of_bad_losses_is_one_line(job: Job) -> None:
    start(job, "--steps", "60", "--tells", "--bad-from", "20")
    assert job.wait() == 0, job.stderr
    told = job.events("loss_went_bad")
    assert [event["sentence"] for event in told] == [
        f"rank {told[0]['rank']}: the loss was NaN at step 20"]
    assert told[0]["step"] == 20
    assert told[0]["sentence"] in job.stderr
    assert job.events("rank_failed") == []
