"""`paceline stacks`: where every rank of a running job is, equal stacks once."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from job import SCRIPTS, Job, JsonDict, eventually
from test_commands import checked

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 3


def test_a_master_that_stands_still_is_named(job: Job) -> None:
    job.be_patient().start_steps(["--standalone", "--nproc-per-node", "1"], steps=100000)
    job.until_stepping(1)
    master = job.card["master"]["pid"]
    os.kill(master, signal.SIGSTOP)
    try:
        refused = job.command("stacks", "--job", str(job.run_dir))
        assert refused.returncode == 3, refused
        for words in ("does not answer", f"process {master} on this host", "is stopped (SIGSTOP)",
                      f"kill -CONT {master}; then type"):
            assert words in refused.stderr, refused
        for word in ("status", "why"):
            told = job.command(word, "--job", str(job.run_dir)).stdout
            assert f"the master (process {master}) does not answer, and the journal" in told, told
    finally:
        os.kill(master, signal.SIGCONT)
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0
    job.wait()


def test_stacks_of_all_ranks_are_folded(job: Job) -> None:
    # The stopped rank stays, however long the looks take.
    job.be_patient().env["PACELINE_HANG_ACT"] = "tell"
    job.start(["--standalone", "--nproc-per-node", str(RANKS)],
              [str(SCRIPTS / "hang_cases.py"), "--case", "slow", "--seconds", "1000"])

    def in_step() -> dict[int, JsonDict] | None:
        ranks = job.ranks()
        is_there = [rank["step_count"] >= 30 for rank in ranks.values()]
        return ranks if len(is_there) == RANKS and all(is_there) else None

    pid = eventually(in_step, "rank 1 sleeps in its 31st step", job=job)[1]["pid"]

    def said(*words: str) -> str:
        done = job.command("stacks", *words, "--job", str(job.run_dir))
        assert done.returncode == 0, done
        return done.stdout

    # A step counts before the next one sleeps.
    eventually(lambda: re.search(r"hang_cases\.py:\d+  slow$", said(), re.M), "rank 1 sleeps",
               job=job)
    os.kill(pid, signal.SIGSTOP)
    # py-spy gets 3 s for a rank, and a busy machine may need them.
    sleeper = (rf"^rank 1 \(pid {pid} on node0\): stopped, forward\n"
               r"  \S+hang_cases\.py:\d+  slow\n")

    def all_stand() -> str:
        text = said()
        is_so = re.search(r"^ranks 0, 2: sleeps", text, re.M) and re.search(sleeper, text, re.M)
        return text if is_so else ""

    text = eventually(all_stand, "ranks 0 and 2 stand at one line, and rank 1 at another", job=job)
    assert text.count("  Script.train\n") == 2, text  # of ranks 0 and 2 together, and of rank 1
    alone = said("--rank", "1")
    assert alone.startswith("rank 1 (pid") and "rank 0" not in alone

    def stack() -> JsonDict | None:
        (one,) = checked(said("--rank", "1", "--json"))["ranks"]
        return one if one["frames"] else None

    one = eventually(stack, "the stack of rank 1 alone", job=job)
    assert (one["state"], one["phase"], one["node"]) == ("stopped", "forward", "node0")
    assert one["frames"][0]["function"] == "slow"
    refused = job.command("stacks", "--rank", "9", "--json", "--job", str(job.run_dir))
    assert json.loads(refused.stdout or refused.stderr)["code"] == "PL-E010"


def test_a_job_that_has_ended_has_no_stacks(job: Job) -> None:
    job.start_steps(["--standalone"], steps=1)
    assert job.wait() == 0, job.stderr
    refused = job.command("stacks", "--json", "--job", str(job.run_dir))
    assert json.loads(refused.stdout or refused.stderr)["code"] == "PL-E030"
