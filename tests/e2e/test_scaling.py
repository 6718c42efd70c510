"""The number of nodes is changed by hand while a job trains, right after a checkpoint."""

from __future__ import annotations

import json
import os
import signal

from job import Job, eventually
from test_commands import checked

THREE = ["--standalone", "--local-nodes", "3", "--nproc-per-node", "1", "--nnodes", "1:3"]


def worlds(job: Job) -> list[str]:
    return [event["sentence"] for event in job.events("world_formed")]


def decisions(job: Job) -> list[str]:
    return [event["sentence"] for event in job.events("recovery_decided")]


def go(job: Job, name: str) -> None:
    (job.state / name).touch()


def until_world(job: Job, nodes: int) -> None:
    text = f"{nodes} node{'s' if nodes > 1 else ''} and {nodes} rank"
    eventually(lambda: text in worlds(job)[-1], f"the world has {text}", job=job)


def test_it_goes_down_and_up_again_right_after_checkpoints(job: Job) -> None:
    job.be_patient().start_steps(
        THREE, "--save-every", "40", "--hold", "20", "--hold", "60:second",
        "--hold", "100:third", steps=120)
    job.until_stepping(3, beyond=5)
    # Nothing is saved yet, so the job stays as it is until it has saved.
    asked = job.command("scale", "--nodes", "2")
    assert asked.returncode == 0, asked.stderr
    assert "the job goes from 3 to 2 nodes, as soon as it costs no step" in asked.stderr
    (chosen,) = job.until_event("size_chosen")
    assert chosen["sentence"] == "the job is to have 2 nodes: paceline scale was typed"
    job.let_go()
    until_world(job, 2)
    assert "resize: from 3 to 2 nodes: the checkpoint of step 39 is newer than the request" \
        in decisions(job)

    # A failure forms the next world in the chosen size.
    job.until_event("world_running", 2)
    ranks = job.until_stepping(2, beyond=45)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.until_event("world_running", 3)
    job.until_stepping(2, beyond=45)
    until_world(job, 2)
    shown = checked(job.command("scale", "--json").stdout)
    assert (shown["nodes"], shown["chosen"], shown["nodes_max"]) == (2, 2, 3)

    assert job.command("scale", "--nodes", "3").returncode == 0
    go(job, "second")
    until_world(job, 3)
    job.until_event("world_running", 4)
    job.until_stepping(3, beyond=85)
    go(job, "third")
    assert job.wait() == 0, job.stderr
    done = [step for _, step in job.steps_done(0)]
    redone = {step for step in done if done.count(step) > 1}
    assert redone <= {*range(40, 61), *range(80, 101)}, "only those after a checkpoint"


def test_what_is_impossible_is_refused_and_nothing_changes(job: Job) -> None:
    job.be_patient().start_steps(THREE, "--hold", "20", steps=40)
    job.until_stepping(3, beyond=5)
    refused = job.command("scale", "--nodes", "4")
    assert refused.returncode == 2, refused.stderr
    assert "PL-E115" in refused.stderr
    assert "the job was started with --nnodes 1:3" in refused.stderr
    assert job.command("scale", "--nodes", "0").returncode == 2
    assert job.command("scale", "--now").returncode == 2
    tried = job.command("scale", "--nodes", "2", "--dry-run")
    assert "with this size, the job goes from 3 to 2 nodes" in tried.stdout
    error = json.loads(job.command("scale", "--nodes", "4", "--json").stdout)
    assert error["code"] == "PL-E115"
    assert not job.events("size_chosen")
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert len(worlds(job)) == 1
    over = job.command("scale", "--nodes", "2")
    assert over.returncode == 2
    assert "the job has ended" in over.stderr
