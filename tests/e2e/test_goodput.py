"""Where the time of real ranks went, as their phases divide it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from job import SCRIPTS, Job
from test_commands import checked

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 2
STEPS = 60
CLASSES = {
    "data": "data_loading_sync",
    "evaluation": "evaluation",
    "checkpoint": "unproductive_checkpoint_save",
}


def run(job: Job, *args: str, worlds: int = 1) -> None:
    job.be_patient().start(
        ["--standalone", "--nproc-per-node", str(RANKS)],
        [str(SCRIPTS / "phased.py"), "--steps", str(STEPS), "--times", str(job.state), *args],
    )
    for world in range(worlds):
        job.until_event("world_running", world + 1)
        (job.state / f"go-{world}").touch()
    assert job.wait() == 0, job.stderr


def goodput(job: Job) -> dict[str, Any]:
    done = job.command("goodput", "--json", "--job", str(job.run_dir))
    assert done.returncode == 0, done
    return checked(done.stdout)


def slept(job: Job, restarts: int) -> dict[str, float]:
    """What the ranks of that world slept together, by the script's own count."""
    sums = dict.fromkeys(CLASSES, 0.0)
    for rank in range(RANKS):
        told = json.loads((job.state / f"rank{rank}-{restarts}.json").read_text())
        sums = {what: sums[what] + told[what] for what in sums}
    return sums


def test_the_time_of_loader_evaluation_and_saves_is_told_apart(job: Job) -> None:
    run(job)
    told = goodput(job)
    spent = told["rank_seconds"]
    # Each took at least as long as the script slept in it.
    for what, seconds in slept(job, 0).items():
        assert spent[CLASSES[what]] >= 0.8 * seconds, (what, seconds, spent)
    assert spent["productive"] > 0
    # The end of the training is found among the ranks' phases, too.
    divided = [*CLASSES.values(), "productive", "straggler_wait", "stopping", "unknown"]
    assert sum(spent[name] for name in divided) >= 0.9 * told["divided_rank_seconds"] > 0
    text = job.command("goodput", "--job", str(job.run_dir)).stdout
    for words in ("evaluation", "checkpoint stall", "data wait"):
        assert words in text, text


def test_a_restored_world_is_divided_too(job: Job) -> None:
    run(job, "--fail", "30", worlds=2)
    spent = goodput(job)["rank_seconds"]
    assert spent["unproductive_checkpoint_restore"] > 0, spent
    for what, seconds in slept(job, 1).items():
        assert spent[CLASSES[what]] >= 0.8 * seconds, (what, seconds, spent)


def test_people_do_not_see_the_record_of_each_minute(job: Job) -> None:
    run(job)
    assert job.events("time_accounted"), "the ranks told their times"
    at = ["--job", str(job.run_dir)]
    assert "phases of" not in job.command("events", *at).stdout
    assert "phases of" in job.command("events", "--kind", "time_accounted", *at).stdout
    assert "phases of" not in job.stderr
