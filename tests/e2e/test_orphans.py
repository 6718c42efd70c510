"""Ranks that belong to nobody any more: nobody has to find them next week."""

from __future__ import annotations

import os
import signal

import pytest
from job import Job, eventually, lives

pytestmark = pytest.mark.alone

TWO = ["--standalone", "--nproc-per-node", "2"]


def start_impatient(job: Job) -> list[int]:
    """A job whose orphans may live for two seconds; the pids of its ranks, its launcher killed."""
    (job.directory / "paceline.toml").write_text('[timers]\norphan_after = "2s"\n')
    job.start_steps(TWO, steps=100000)
    ranks = [rank["pid"] for rank in job.until_stepping(2, beyond=3).values()]
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()
    return ranks


def test_ranks_whose_agent_died_for_good_are_ended_by_their_starter(job: Job) -> None:
    ranks = start_impatient(job)
    os.kill(job.agent_pid("node0"), signal.SIGKILL)
    eventually(lambda: not any(map(lives, ranks)), "the ranks are ended")


def test_an_agent_without_a_master_ends_its_ranks_and_itself(job: Job) -> None:
    ranks = start_impatient(job)
    agent = job.agent_pid("node0")
    os.kill(job.card["master"]["pid"], signal.SIGKILL)
    eventually(lambda: not any(map(lives, [*ranks, agent])), "the ranks and the agent end")
    eventually(lambda: not job.leftovers(), "nothing of the job lives")


def test_a_frozen_agent_does_not_keep_its_ranks_beyond_the_job(job: Job) -> None:
    job.start_steps(TWO, steps=100000)
    ranks = [rank["pid"] for rank in job.until_stepping(2, beyond=3).values()]
    os.kill(job.agent_pid("node0"), signal.SIGSTOP)
    job.stop_by_force()
    assert job.wait() == 130, job.stderr
    eventually(lambda: not any(map(lives, ranks)), "the ranks are ended")
