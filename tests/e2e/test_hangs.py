"""Ranks that live and do not go on: named with their line, and restarted when that is certain."""

from __future__ import annotations

import re

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 3


def start(job: Job, *args: str) -> None:
    job.be_patient().start(["--standalone", "--nproc-per-node", str(RANKS)],
                           [str(SCRIPTS / "hangs.py"), *args])


def test_a_stopped_rank_is_named_and_restarted(job: Job) -> None:
    start(job, "--steps", "80", "--stop-at", "40")
    judged = eventually(lambda: job.events("hang_judged"), "a verdict", job=job)[0]
    assert re.match(
        r"Rank 1 on node0 was stopped \(SIGSTOP\) in hangs\.py:\d+.*\. Ranks 0 and 2 waited "
        r"\d+\.\d s for it in (all_reduce|barrier) \d+ of the world \(hangs\.py:\d+\)\.$",
        judged["sentence"]), judged["sentence"]
    assert judged["details"]["culprits"] == "1"
    assert job.wait() == 0, job.stderr
    failed = job.events("rank_failed")
    assert [event["rank"] for event in failed] == [1]
    assert failed[0]["details"]["how"] == "hung"
    assert len(job.events("world_formed")) == 2
    seq = str(job.events("recovery_decided")[0]["seq"])
    said = job.command("why", seq, "--job", str(job.run_dir)).stdout
    text = " ".join(said.split())
    assert text.startswith(judged["sentence"]), text
    assert "Restart process: training again after" in text


def test_a_skipped_call_names_both_lines_and_ends_the_job_at_the_third_time(job: Job) -> None:
    start(job, "--skip-at", "30")
    assert job.wait() == 1, job.stderr
    judged = job.events("hang_judged")
    assert len(judged) == 3, job.stderr
    for event in judged:
        assert re.match(
            r"Rank 1 made another call than ranks 0 and 2: all_reduce of \d+ bytes of float32 at "
            r"hangs\.py:\d+, not barrier at hangs\.py:\d+\. It was call \d+ of the world\.$",
            event["sentence"]), event["sentence"]


def test_a_rank_that_takes_its_time_is_named_and_left_alone(job: Job) -> None:
    """Nobody knows what a script does between two steps; it may evaluate, or upload."""
    go_on = job.directory / "go"
    start(job, "--steps", "60", "--pause-at", "40", "--until", str(go_on))
    judged = eventually(lambda: job.events("hang_judged"), "it is named", job=job)[0]
    go_on.touch()
    assert re.match(
        r"Rank 1 on node0 (does not go on|is busy) in hangs\.py:\d+(; it waits in sleep)?; it may "
        r"be evaluating or saving\. Ranks 0 and 2 waited \d+\.\d s for it in (all_reduce|barrier) "
        r"\d+ of the world \(hangs\.py:\d+\)\.$", judged["sentence"]), judged["sentence"]
    assert job.wait() == 0, job.stderr
    assert {event["details"]["acts"] for event in job.events("hang_judged")} == {"false"}
    assert job.events("rank_failed") == []


def test_a_rank_that_raised_and_does_not_end_is_named(job: Job) -> None:
    end = job.directory / "end"
    start(job, "--steps", "60", "--raise-at", "40", "--until", str(end))
    sentence = eventually(lambda: job.events("hang_judged"), "it is named", job=job)[0]["sentence"]
    end.touch()
    assert re.match(r"Rank 1 on node0 raised ValueError and does not end: bad batch "
                    r"\(hangs\.py:\d+\)\. ", sentence), sentence
    assert job.wait() == 0, job.stderr
    failed = job.events("rank_failed")
    assert [event["rank"] for event in failed] == [1]
    assert "ValueError: bad batch (hangs.py:" in failed[0]["sentence"], failed
