"""A node has a limit of memory, and gets more before the kernel kills a rank, or after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from job import SCRIPTS, Job, JsonDict, eventually
from test_memory import own_group

ONE = ["--standalone", "--nproc-per-node", "1"]
MIB = 1 << 20


def start(job: Job, *args: str, node: str = "", most: str = "") -> None:
    if node:
        job.env["PACELINE_MEMORY_NODE"] = node
    if most:
        job.env["PACELINE_MEMORY_MOST"] = most
    job.be_patient().start(
        ONE, [str(SCRIPTS / "leaking.py"), "--dir", str(job.state), "--steps", "1000000", *args])


def groups_of(job: Job) -> list[Path]:
    parent, _, _ = own_group()
    status: JsonDict = eventually(job.status, "a status", job=job)
    return list(parent.glob(f"paceline-{status['job']['id']}-*"))


def limit_of(group: Path) -> int:
    return int((group / own_group()[1]).read_text())


def told(job: Job) -> list[str]:
    """What status says about memory now."""
    status: JsonDict = job.status() or {}
    return list(status.get("memory", []))


@pytest.fixture
def groups() -> None:
    parent, limit, _ = own_group()
    group = parent / f"paceline-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(64 * MIB))
    except OSError as error:
        pytest.skip(f"MEMORY OF NODES NOT TESTED: no memory cgroup can be made here: {error}")
    finally:
        if group.exists():
            group.rmdir()


@pytest.mark.usefixtures("groups")
def test_a_leak_is_met_before_the_kill_and_no_rank_is_restarted(job: Job) -> None:
    """It grows by 1.6 % of the limit a second, and needs more than the limit afterwards."""
    start(job, "--grow", "4", "--to", "180", "--jump", "250", node="256MiB", most="2GiB")
    (short,) = job.until_event("memory_short")
    raised = int(short["details"]["next_limit_bytes"])
    assert short["details"]["killed"] == "false", short
    assert int(short["details"]["used_bytes"]) < 256 * MIB < raised <= 2048 * MIB, short
    assert "the limit is reached in" in short["sentence"]
    assert "it is raised to" in short["sentence"]
    assert told(job) == [short["sentence"]]
    (group,) = groups_of(job)
    eventually(lambda: limit_of(group) >= raised, "the limit of the cgroup is raised", job=job)
    (job.state / "jump").touch()  # more than the first limit allows
    eventually(lambda: int((group / "memory.max_usage_in_bytes").read_text()) > 256 * MIB
               if (group / "memory.max_usage_in_bytes").exists()
               else int((group / "memory.peak").read_text()) > 256 * MIB,
               "it uses more than it might", job=job)
    beyond = job.step()
    eventually(lambda: job.step() > beyond + 20, "steps go on", job=job)
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    assert not job.events("rank_failed")
    assert len(job.events("world_formed")) == 1
    assert not group.exists()


@pytest.mark.usefixtures("groups")
def test_a_sudden_need_is_met_by_a_restart_with_more(job: Job) -> None:
    start(job, "--jump", "200", node="128MiB", most="512MiB")
    job.until_stepping(1)
    (group,) = groups_of(job)
    (job.state / "jump").touch()
    (short,) = job.until_event("memory_short")
    assert short["details"]["killed"] == "true"
    assert short["details"]["next_limit_bytes"] == str(256 * MIB), short
    job.until_event("world_running", 2)
    assert limit_of(group) == 256 * MIB
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    (failed,) = job.events("rank_failed")
    assert "was killed at its node's memory limit of 128 MiB" in failed["sentence"]
    assert "node0 may use 256 MiB now" in job.events("recovery_decided")[0]["sentence"]
    why = job.command("why", "--job", str(job.run_dir)).stdout
    assert "node0 needs more than its limit of 128 MiB" in why, why


@pytest.mark.usefixtures("groups")
def test_at_most_the_job_stops_and_says_why(job: Job) -> None:
    (job.state / "jump").touch()
    start(job, "--jump", "300", node="64MiB", most="128MiB")
    assert job.wait() == 1, job.stderr
    limits = [event["details"]["limit_bytes"] for event in job.events("memory_short")]
    assert limits == [str(64 * MIB)], "raised once"
    assert len(job.events("rank_failed")) == 2
    assert "memory limit of 128 MiB, which is [memory] most" in job.stderr
    assert not groups_of(job)


@pytest.mark.usefixtures("groups")
def test_a_limit_of_a_cgroup_around_the_job_is_told(job: Job) -> None:
    """No setting, and a cgroup that something else has made: paceline does not touch it."""
    parent, limit, members = own_group()
    group = parent / f"paceline-around-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(640 * MIB))
        inside = ["/bin/sh", "-c", f'echo $$ > "{group / members}" && exec "$@"', "sh"]
        alone = Job(job.directory / "alone", is_alone=True)  # its starter is in the group, too
        alone.be_patient().start(
            ONE, [str(SCRIPTS / "leaking.py"), "--dir", str(alone.state), "--steps", "1000000",
                  "--grow", "6", "--to", "400"], prefix=inside)
        (short,) = alone.until_event("memory_short")
        assert "of the 640 MiB that its cgroup allows" in short["sentence"], short
        assert "next_limit_bytes" not in short["details"]
        assert limit_of(group) == 640 * MIB
        (alone.state / "enough").touch()
        assert alone.wait() == 0, alone.stderr
        assert not alone.events("rank_failed")
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text().strip() or None, "it is empty")
        group.rmdir()
