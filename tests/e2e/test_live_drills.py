"""`paceline drill KIND --job`: a job that runs is struck once, and its journal says that it was."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from job import SCRIPTS, TOGETHER, Job, JsonDict, eventually

TWO_NODES = ["--standalone", "--local-nodes", "2", "--nnodes", "2", "--nproc-per-node", "1",
             "--replace-nodes", "off"]


def start(job: Job, flags: list[str], ranks: int, *args: str) -> None:
    job.env |= TOGETHER
    job.be_patient().start_steps(flags, *args, steps=1_000_000)
    job.until_stepping(ranks)


def drill(job: Job, *words: str) -> subprocess.CompletedProcess[str]:
    return job.command("drill", *words, "--job", str(job.run_dir))


def until_possible(job: Job, *words: str) -> str:
    """What the drill would do, as soon as nothing (no missing checkpoint) speaks against it."""
    def ask() -> str | None:
        told = drill(job, *words)
        return told.stdout if told.returncode == 0 else None
    return eventually(ask, f"the job may be struck by {words}", job=job)


def strike(job: Job, *words: str) -> JsonDict:
    """Struck once; returns the event of the drill."""
    done = drill(job, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("struck "), done.stdout
    (event,) = job.events("drill_struck")
    return event


def why(job: Job) -> str:
    return " ".join(job.command("why", "--job", str(job.run_dir)).stdout.split())


def test_a_rank_is_killed_once_and_why_says_that_it_was_a_drill(job: Job) -> None:
    start(job, ["--standalone", "--nproc-per-node", "2"], 2, "--save-every", "5")
    told = until_possible(job, "sigkill")
    assert told.startswith("would strike rank 1 on node0 (process "), told
    assert "cost: all 2 ranks start again and repeat about " in told, told
    assert "expected: found as killed, restart process" in told, told
    assert job.events("drill_struck") == []  # nothing was done so far
    struck = strike(job, "sigkill", "--rank", "0")
    assert (struck["rank"], struck["node"]) == (0, "node0")
    assert struck["sentence"] == ("a drill (sigkill) strikes rank 0 on node0: paceline drill was "
                                  "typed")
    (failed,) = job.until_event("rank_failed")
    assert failed["rank"] == 0
    assert struck["seq"] in failed["causes"], failed
    job.until_event("world_running", 2)
    text = why(job)
    assert "rank 0 on node0" in text and "killed by SIGKILL" in text, text
    assert "drill: a drill (sigkill) strikes rank 0 on node0" in text, text
    told = json.loads(job.command("why", "--json", "--job", str(job.run_dir)).stdout)
    assert told["drill"] == struck["seq"], told
    assert len(job.events("drill_struck")) == 1


def refused(job: Job, code: str, words: str, *line: str) -> None:
    done = job.command("drill", *line)
    assert done.returncode == 2, done
    said = " ".join(done.stderr.split())
    assert code in said and words in said, said


def test_what_would_cost_too_much_is_refused(job: Job) -> None:
    start(job, TWO_NODES, 2)  # without a checkpoint and without a spare
    at = ["--job", str(job.run_dir), "--yes"]
    refused(job, "PL-E169", "no checkpoint is known", "sigkill", *at)
    refused(job, "PL-E169", "no checkpoint is known", "sigstop", *at)
    refused(job, "PL-E169", "no spare is there that could take the ranks of", "node_kill", *at)
    refused(job, "PL-E169", "no rank 7 lives on this host", "sigkill", *at, "--rank", "7")
    refused(job, "PL-E168", "sigkill, sigstop, agent_kill, node_kill", "wrong_shape", *at)
    refused(job, "PL-E165", "there is no kind of drill", "sigkil", *at)
    refused(job, "PL-E010", "a script stands beside --job", *at, "sigkill", "train.py")
    refused(job, "PL-E010", "a live job must not get every fault", *at, "--all")
    refused(job, "PL-E010", "--yes has no job", "sigkill", "--yes")
    assert job.events("drill_struck") == []
    assert job.events("rank_failed") == []


def test_an_agent_is_killed_and_its_ranks_train_on(job: Job) -> None:
    start(job, TWO_NODES, 2)
    job.until_watched()
    told = drill(job, "agent_kill", "--node", "node1")
    assert "cost: no step is lost: the ranks of node1 train on" in told.stdout, told
    struck = strike(job, "agent_kill", "--node", "node1")
    (returned,) = job.until_event("agent_returned")
    assert returned["node"] == "node1"
    assert struck["seq"] in returned["causes"], returned
    assert "drill: a drill (agent_kill) strikes the agent of node1" in why(job)
    assert job.events("rank_failed") == []


def test_a_node_is_killed_and_a_spare_takes_its_ranks(job: Job) -> None:
    start(job, [*TWO_NODES, "--spares", "1"], 2, "--save-every", "5")
    job.until_watched()
    victim = job.ranks()[1]["node"]
    told = until_possible(job, "node_kill", "--node", victim)
    assert f"cost: {victim} is lost and a spare takes its ranks" in told, told
    struck = strike(job, "node_kill", "--node", victim)
    (lost,) = job.until_event("node_lost")
    assert lost["node"] == victim
    assert struck["seq"] in lost["causes"], lost
    job.until_event("world_running", 2)
    assert victim not in {rank["node"] for rank in job.ranks().values()}
    assert f"drill: a drill (node_kill) strikes {victim}" in why(job)


def test_a_stopped_rank_is_a_hang_by_a_drill(job: Job, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the script trains with torch")
    job.be_patient().start(
        ["--standalone", "--nproc-per-node", "2"],
        [str(SCRIPTS / "slow_host.py"), "--state", str(job.state / "step"), "--enough",
         str(tmp_path / "enough")])
    job.until_stepping(2, beyond=40)  # ranks that hang in their first steps are only named
    told = until_possible(job, "sigstop", "--rank", "1")
    assert "cost: all 2 ranks stand still until the stopped rank is found" in told, told
    struck = strike(job, "sigstop", "--rank", "1")
    judged = job.until_event("hang_judged")[0]
    assert struck["seq"] in judged["causes"], judged
    job.until_event("world_running", 2)
    assert "drill: a drill (sigstop) strikes rank 1 on node0" in why(job)
