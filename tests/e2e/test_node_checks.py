"""Checks of the user before a host joins, and a spare that takes the ranks of a slow host."""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from free_ports import free_port
from hosts import bulk_port
from job import SCRIPTS, TOGETHER, Job, JsonDict, eventually

MakeJob = Callable[[str], Job]
PIDFD_GETFD = 438  # the number of the system call

# A check as a user writes it: this "broken" host lacks a GPU.
CHECK = """#!/bin/sh
if [ "$PACELINE_NODE" = broken ]; then
  echo '{"ok": false, "reason": "7 of 8 GPUs are here", "numbers": {"gpus": 7}}'
else
  echo '{"ok": true, "numbers": {"gpus": 8}}'
fi
"""


def write_check(job: Job, text: str = CHECK, mode: int = 0o755) -> Path:
    path = job.directory / "gpu.sh"
    path.write_text(text)
    path.chmod(mode)
    return path


def shared_flags(check: Path, nodes: str) -> list[str]:
    return ["--nnodes", nodes, "--nproc-per-node", "1", "--check", str(check),
            "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]


def start_two_hosts(sound: Job, broken: Job, nodes: str) -> list[str]:
    flags = shared_flags(write_check(sound), nodes)
    words = Job.steps_script(sound.state, 1_000_000)
    sound.env |= TOGETHER
    sound.be_patient().start([*flags, "--node-name", "sound", "--rdzv-conf", "is_host=1"], words)
    eventually(sound.status, "its master answers", job=sound)
    broken.start([*flags, "--node-name", "broken", "--rdzv-conf", "is_host=0"], words)
    return flags


def test_a_host_whose_check_fails_never_joins(make_job: MakeJob) -> None:
    sound, broken = make_job("sound"), make_job("broken")
    flags = start_two_hosts(sound, broken, "2")
    assert broken.wait() == 92, broken.stderr
    reason = "failed its checks: gpu.sh: 7 of 8 GPUs are here"
    assert reason in broken.stderr, broken.stderr
    at = ["--job", str(sound.run_dir)]
    status = sound.command("status", *at).stdout
    assert f"broken {reason}" in " ".join(status.split()), status
    told = sound.command("why", *at)  # what to do next stands on stderr
    why = " ".join((told.stdout + told.stderr).split())
    assert reason in why, why
    assert "repair broken, then start it there again" in why, why
    assert sound.events("world_formed") == []
    checked = {event["node"]: event["details"] for event in sound.events("node_checked")}
    assert checked["broken"]["ok"] == "false"
    assert json.loads(checked["sound"]["numbers"]) == {"gpu.sh": {"gpus": 8}}
    # The host is repaired, and the command is typed there again.
    write_check(sound, CHECK.replace("broken", "none"))
    repaired = make_job("repaired")
    repaired.start([*flags, "--node-name", "broken", "--rdzv-conf", "is_host=0"],
                   Job.steps_script(sound.state, 1_000_000))
    ranks = sound.until_stepping(2)
    assert {rank["node"] for rank in ranks.values()} == {"sound", "broken"}


def test_a_job_that_may_be_smaller_starts_without_the_host(make_job: MakeJob) -> None:
    sound, broken = make_job("sound"), make_job("broken")
    sound.env |= {"PACELINE_TIMERS_JOIN_WINDOW": "1s"}
    flags = shared_flags(write_check(sound), "1:2")
    words = Job.steps_script(sound.state, 1_000_000)
    sound.be_patient().start([*flags, "--node-name", "sound", "--rdzv-conf", "is_host=1"], words)
    sound.until_stepping(1)
    broken.start([*flags, "--node-name", "broken", "--rdzv-conf", "is_host=0"], words)
    assert broken.wait() == 92, broken.stderr
    assert len(sound.events("world_formed")) == 1
    node = sound.node("broken")
    assert node is not None and node["state"] == "evicted", node


@pytest.mark.parametrize(("text", "mode", "words"), [
    (None, 0, "No such file or directory"),
    ("echo", 0o644, "is not executable"),
])
def test_a_check_that_cannot_start_is_refused_at_once(
    job: Job, text: str | None, mode: int, words: str
) -> None:
    path = job.directory / "check"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    job.start_steps(["--standalone", "--check", str(path)], steps=5)
    assert job.wait() == 2, job.stderr
    assert "PL-E235" in job.stderr and words in job.stderr, job.stderr


def test_a_host_is_measured(job: Job) -> None:
    job.be_patient().start_steps(
        ["--standalone", "--local-nodes", "2", "--nproc-per-node", "1", "--node-check"], steps=5)
    assert job.wait() == 0, job.stderr
    checked = job.events("node_checked")
    assert {event["node"] for event in checked} == {"node0", "node1"}
    for event in checked:
        numbers = json.loads(event["details"]["numbers"])["host"]
        assert set(numbers) == {"matmul_gflops", "memory_gb_s", "disk_mb_s", "loopback_gb_s"}
        assert min(numbers.values()) > 0, event
    (judged,) = job.events("pairs_judged")
    assert judged["details"]["pairs"] == "1" and judged["details"]["doubtful_links"] == "", judged
    assert "all are good" in judged["sentence"], judged
    assert "link" not in job.stderr, job.stderr


# The checks of all hosts end when the test has struck.
HELD = """#!/bin/sh
while [ ! -e go ]; do sleep 0.1; done
echo '{"ok": true}'
"""


def close_port(pid: int, port: int) -> None:
    """Ends the listening of another process on that port: the kernel refuses all who connect."""
    listening = next(
        fields[9] for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[1].endswith(f":{port:04X}") and fields[3] == "0A")
    number = next(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()
                  if os.readlink(entry) == f"socket:[{listening}]")
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(pid)
    taken = libc.syscall(PIDFD_GETFD, handle, number, 0)
    os.close(handle)
    if taken < 0:
        pytest.skip("A DEAD PORT NOT TESTED: the kernel gives nobody another process's socket")
    with socket.socket(fileno=taken) as listener:
        listener.shutdown(socket.SHUT_RDWR)


def test_a_host_to_which_no_other_can_connect_stays_out(job: Job) -> None:
    check = write_check(job, HELD)
    job.env |= {"PACELINE_CHECK_TIMEOUT": "300s", **TOGETHER}
    job.be_patient().start_steps(
        ["--standalone", "--local-nodes", "3", "--nnodes", "3", "--spares", "1",
         "--nproc-per-node", "1", "--replace-nodes", "off", "--node-check", "--check", str(check)],
        steps=1_000_000)
    for node in ("node0", "node1", "node2", "node3"):
        eventually(lambda node=node: job.node(node), f"{node} is here", job=job)
    broken = job.node("node1")
    assert broken is not None
    close_port(broken["agent_pid"], bulk_port(job, "node1"))
    (job.directory / "go").touch()
    ranks = job.until_stepping(3)
    assert {rank["node"] for rank in ranks.values()} == {"node0", "node2", "node3"}

    # The last one to come is tested when the others have their ranks, and may be node1.
    def taken_out() -> JsonDict | None:
        node = job.node("node1")
        return node if node is not None and node["state"] == "evicted" else None

    evicted = eventually(taken_out, "it is taken out", job=job)
    reason = "failed its checks: links: its tests with node"
    assert evicted["reason"].startswith(reason), evicted
    assert " fetches nothing from node1: " in evicted["reason"], evicted
    assert evicted["reason"].endswith(": nobody answers"), evicted
    judged = job.events("pairs_judged")
    assert {event["details"]["bad"] for event in judged} - {""} == {"node1"}, judged
    assert not any(event["details"]["bad_links"] for event in judged), judged
    at = ["--job", str(job.run_dir)]
    status = " ".join(job.command("status", *at).stdout.split())
    assert reason in status, status
    told = job.command("why", *at)
    why = " ".join((told.stdout + told.stderr).split())
    assert reason in why, why


def test_two_checks_of_one_name_are_refused(job: Job) -> None:
    path = write_check(job)
    job.start_steps(["--standalone", "--check", f"{path},./gpu.sh"], steps=5)
    assert job.wait() == 2, job.stderr
    assert "PL-E236" in job.stderr, job.stderr


def test_a_spare_takes_the_ranks_of_a_slow_host(job: Job) -> None:
    pytest.importorskip("torch", reason="the script trains with torch")
    job.env |= {"PACELINE_SLOW_ACT": "replace", "PACELINE_SLOW_ACT_AFTER": "0s", **TOGETHER}
    enough = job.directory / "enough"
    job.be_patient().start(
        ["--standalone", "--local-nodes", "3", "--nnodes", "3", "--spares", "1",
         "--nproc-per-node", "1", "--replace-nodes", "off", "--check", str(write_check(job))],
        [str(SCRIPTS / "slow_host.py"), "--state", str(job.state / "step"), "--enough",
         str(enough), "--slow", str(job.state / "slow")])
    decided = eventually(
        lambda: [event for event in job.events("recovery_decided")
                 if event["details"]["rung"] == "replace slow"],
        "the slow host is replaced", job=job)
    slow = (job.state / "slow").read_text()
    assert decided[0]["node"] == slow, decided
    assert f"{slow} is slow and costs" in decided[0]["sentence"], decided
    job.until_event("world_formed", 2)

    others = {"node0", "node1", "node2", "node3"} - {slow}

    def nodes() -> set[str]:
        return {rank["node"] for rank in job.ranks().values()}

    eventually(lambda: nodes() == others, "the spare has the ranks", job=job)
    assert f"{slow} is slow" in " ".join(
        job.command("why", "--job", str(job.run_dir)).stdout.split())
    node = job.node(slow)
    assert node is not None and node["state"] == "spare", node
    assert job.events("rank_failed") == []
    # Its checks are repeated before it may be a spare.
    (ordered,) = job.until_event("node_check_ordered")
    assert (ordered["node"], ordered["details"]["slow"]) == (slow, "false"), ordered

    def checked() -> list[dict[str, object]]:
        return [event for event in job.events("node_checked") if event["node"] == slow]

    eventually(lambda: len(checked()) == 2, "it has passed its checks again", job=job)
    enough.touch()
    assert job.wait() == 0, job.stderr


# Named like the check of paceline, so its numbers are compared. Node1 has half the speed: always,
# or only when it is measured for the first time.
MEASURED = """#!/bin/sh
speed=8.0
[ "$PACELINE_NODE" = node1 ] && {{ [ -e seen ] && speed={again} || speed=4.0; touch seen; }}
echo "{{\\"ok\\": true, \\"numbers\\": {{\\"matmul_gflops\\": $speed, \\"memory_gb_s\\": 9.0}}}}"
"""


@pytest.mark.parametrize("again", ["8.0", "4.1"])
def test_a_slow_host_is_measured_once_more(job: Job, again: str) -> None:
    check = job.directory / "host"
    check.write_text(MEASURED.format(again=again))
    check.chmod(0o755)
    job.env |= TOGETHER
    job.be_patient().start_steps(
        ["--standalone", "--local-nodes", "3", "--nnodes", "3", "--spares", "1",
         "--nproc-per-node", "1", "--replace-nodes", "off", "--check", str(check)],
        steps=1_000_000)
    ranks = job.until_stepping(3)
    # A node1 that joins last is measured once more while the others train.
    (ordered,) = job.until_event("node_check_ordered")
    assert (ordered["node"], ordered["details"]["slow"]) == ("node1", "true"), ordered
    assert "the median of the other nodes is 8.0" in ordered["sentence"], ordered

    def checked() -> list[JsonDict]:
        return [event for event in job.events("node_checked") if event["node"] == "node1"]

    eventually(lambda: len(checked()) >= 2, "node1 is measured once more", job=job)
    assert len(job.events("world_formed")) == 1
    if again == "8.0":
        assert job.events("node_evicted") == []
        node = job.node("node1")
        assert node is not None and node["state"] in ("seated", "spare"), node
    else:
        assert {rank["node"] for rank in ranks.values()} == {"node0", "node2", "node3"}
        (evicted,) = job.until_event("node_evicted")
        assert evicted["node"] == "node1", evicted
        node = job.node("node1")
        assert node is not None and node["state"] == "evicted", node
        assert "it was as slow when it was measured before" in node["reason"], node
