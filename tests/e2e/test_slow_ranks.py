"""Slow ranks and bad losses of real ranks: told while the job trains, and never acted on."""

from __future__ import annotations

import re

import pytest
from job import SCRIPTS, Job, JsonDict, eventually

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 4


def start(job: Job, *args: str) -> None:
    job.be_patient().start(["--standalone", "--nproc-per-node", str(RANKS)],
                           [str(SCRIPTS / "paced.py"), *args])


def start_endless(job: Job, *args: str) -> None:
    """On a busy machine most windows of steps are full of noise, and do not count: slow_test.cc
    says after how many the rank is named. So the job trains until `end_well` is called."""
    start(job, "--steps", "1000000", "--enough", str(job.directory / "enough"), *args)


def end_well(job: Job) -> None:
    (job.directory / "enough").touch()
    assert job.wait() == 0, job.stderr


def until_slow(job: Job) -> JsonDict:
    return eventually(lambda: job.events("rank_slow"), "a slow rank", job=job)[0]


def is_shown(job: Job, sentence: str) -> bool:
    """Whether `status` and `why` say it of rank 2, and of no other."""
    at = ["--job", str(job.run_dir)]
    ranks = [slow["ranks"] for slow in (job.status() or {"slow": []})["slow"]]
    said = job.command("status", *at).stdout + " ".join(job.command("why", *at).stdout.split())
    return ranks == [[2]] and said.count(sentence) >= 2


@pytest.mark.parametrize("how", [[], ["--by-hand"]], ids=["ddp", "by_hand"])
def test_a_rank_that_works_longer_is_named_and_nothing_else_happens(
    job: Job, how: list[str]
) -> None:
    start_endless(job, "--rank", "2", "--factor", "1.5", *how)
    first = until_slow(job)
    assert re.match(
        r"rank 2 on node0: own work \d+ % longer than its peers'; costs \d+ % of the speed "
        r"\(\d+ steps a day\)$", first["sentence"]), first["sentence"]
    assert first["details"]["data"] == "false"
    assert 0.25 < float(first["details"]["excess"]) < 0.75
    eventually(lambda: is_shown(job, job.events("rank_slow")[-1]["sentence"]),
               "status and why say it", job=job)
    end_well(job)
    assert first["sentence"] in job.stderr
    # Noise may hide a slow rank for some windows, and it is named again then.
    assert {event["details"]["ranks"] for event in job.events("rank_slow")} == {"2"}
    assert job.events("rank_failed") == []
    assert len(job.events("world_formed")) == 1


def test_a_slow_loader_is_called_that(job: Job) -> None:
    start_endless(job, "--rank", "1", "--data", "0.03")
    first = until_slow(job)
    assert first["sentence"].startswith("rank 1 on node0: waits for its data longer"), first
    end_well(job)


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
