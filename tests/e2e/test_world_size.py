"""A world that lost a node grows again when one joins, and never throws work away for it."""

from __future__ import annotations

import re

from job import TOGETHER, Job, eventually

# The first world waits for a late node, and a node that was lost waits as long until it is taken
# in again: shorter than TOGETHER.
SOON = {"PACELINE_TIMERS_JOIN_WINDOW": "8s"}

# A killed node is started again by its launcher and joins as a new one.
ELASTIC = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2", "--nnodes", "1:2",
           "--replace-nodes", "on"]


def worlds(job: Job) -> list[str]:
    return [event["sentence"] for event in job.events("world_formed")]


def holds(first: int, then: int) -> list[str]:
    """The job holds at `first`, however long a node needs to come back, and at `then`, however late
    the test looks at the world that it has become."""
    return ["--hold", str(first), "--hold", f"{then}:then"]


def end(job: Job) -> None:
    (job.state / "then").touch()
    assert job.wait() == 0, job.stderr


def test_it_grows_at_once_when_asked(job: Job) -> None:
    job.be_patient().start_steps([*ELASTIC, "--grow", "now"], *holds(100, 150), steps=200)
    before = job.until_stepping(4, beyond=5)
    first = worlds(job)
    job.kill_node(before[3]["node"])
    job.until_event("node_lost")
    eventually(lambda: len(worlds(job)) >= len(first) + 2, "it has shrunk and grown", job=job)
    assert "2 nodes and 4 ranks" in worlds(job)[-1], worlds(job)
    job.let_go()
    after = job.until_stepping(4, beyond=before[0]["step"] + 20)
    assert sorted(after) == [0, 1, 2, 3]
    assert "1 node and 2 ranks" in worlds(job)[len(first)], "it shrank first"
    end(job)


def test_it_never_grows_when_told_not_to(job: Job) -> None:
    job.be_patient().env |= TOGETHER
    job.start_steps([*ELASTIC, "--grow", "never"], *holds(100, 150), steps=200)
    before = job.until_stepping(4, beyond=5)
    lost = before[3]["node"]
    job.kill_node(lost)
    job.until_event("node_lost")
    node = eventually(lambda: (lambda n: n if n and n["state"] == "spare" else None)(
        job.node(lost)), "the new node is a spare")
    assert all(rank["state"] == "exited" for rank in node["ranks"])
    job.let_go()
    job.until_stepping(2, beyond=before[0]["step"] + 20)
    end(job)
    assert worlds(job)[-1].startswith("world") and "2 ranks" in worlds(job)[-1]


def test_it_waits_for_a_save_before_it_grows(job: Job) -> None:
    # The world of two saves once before it grows, however long the master needs for that.
    saving = ["--save-every", "100", *holds(50, 150)]
    job.be_patient().env |= SOON
    job.start_steps([*ELASTIC, "--grow", "checkpoint"], *saving, steps=400)
    before = job.until_stepping(4, beyond=5)
    job.kill_node(before[3]["node"])
    job.until_event("node_lost")
    job.until_event("growth_planned")
    job.let_go()
    job.until_stepping(4, beyond=120)
    end(job)
    decisions = [event["sentence"] for event in job.events("recovery_decided")]
    (grown,) = (sentence for sentence in decisions if "grows from 1 to 2 nodes" in sentence)
    told = re.search(r"the checkpoint of step (\d+) is newer than the arrival", grown)
    assert told and int(told[1]) % 100 == 99, grown
    # The world of two goes on behind a checkpoint, not wherever the new node found it.
    last = job.steps_done(0)[-1][0]
    first_of_last = next(step for generation, step in job.steps_done(0) if generation == last)
    assert first_of_last == int(told[1]) + 1
