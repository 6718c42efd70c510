"""`paceline stacks`: where every rank of a running job is, equal stacks once."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from job import SCRIPTS, Job, eventually
from test_commands import checked

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 3


def test_stacks_of_all_ranks_are_folded(job: Job) -> None:
    job.env["PACELINE_HANG_ACT"] = "tell"  # the stopped rank stays, however long the looks take
    job.start(["--standalone", "--nproc-per-node", str(RANKS)],
              [str(SCRIPTS / "hang_cases.py"), "--case", "slow", "--seconds", "1000"])

    def is_hung() -> bool:
        ranks = job.ranks()
        return len(ranks) == RANKS and all(rank["step_count"] >= 30 for rank in ranks.values())

    eventually(is_hung, "rank 1 sleeps in its 31st step", job=job)

    def said(*words: str) -> str:
        done = job.command("stacks", *words, "--job", str(job.run_dir))
        assert done.returncode == 0, done
        return done.stdout

    # A step counts before the next one sleeps.
    eventually(lambda: re.search(r"hang_cases\.py:\d+  slow$", said(), re.M), "rank 1 sleeps",
               job=job)
    os.kill(job.ranks()[1]["pid"], signal.SIGSTOP)

    def others_wait() -> str:
        text = said()
        return text if re.search(r"^ranks 0, 2: sleeps", text, re.M) else ""

    text = eventually(others_wait, "ranks 0 and 2 stand at one line", job=job)
    sleeper = re.search(r"^rank 1 \(pid (\d+) on node0\): stopped, forward\n"
                        r"  \S+hang_cases\.py:\d+  slow\n", text, re.M)
    assert sleeper and int(sleeper[1]) == job.ranks()[1]["pid"], text
    assert text.count("  Script.train\n") == 2, text  # of ranks 0 and 2 together, and of rank 1
    alone = said("--rank", "1")
    assert alone.startswith("rank 1 (pid") and "rank 0" not in alone
    (one,) = checked(said("--rank", "1", "--json"))["ranks"]
    assert (one["state"], one["phase"], one["node"]) == ("stopped", "forward", "node0")
    assert one["frames"][0]["function"] == "slow"
    refused = job.command("stacks", "--rank", "9", "--json", "--job", str(job.run_dir))
    assert json.loads(refused.stdout or refused.stderr)["code"] == "PL-E010"


def test_a_job_that_has_ended_has_no_stacks(job: Job) -> None:
    job.start_steps(["--standalone"], steps=1)
    assert job.wait() == 0, job.stderr
    refused = job.command("stacks", "--json", "--job", str(job.run_dir))
    assert json.loads(refused.stdout or refused.stderr)["code"] == "PL-E030"
