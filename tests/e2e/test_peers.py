"""Copies on other hosts: a host is lost with its memory, and nothing of the training is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hosts import Host, again, bulk_port, fetched, needs_hosts, start, until_state
from job import SCRIPTS, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_hosts

RARELY = ["--every", "1000000"]  # nothing goes to storage before the end
ENDLESS = 1_000_000  # steps; the test says when it is enough
# For tests in which one node is lost by its silence: the others, on a busy machine, are waited for.
# A host that has crashed is lost after one and a half times as long.
STEADY = {"PACELINE_TIMERS_LOST_AFTER": "5s"}


def script(first: Host, *args: str, steps: int) -> list[str]:
    folder = first.job.directory
    return [str(SCRIPTS / "flash.py"), "--checkpoint", str(folder / "ckpt"),
            "--out", str(folder / "out"), "--steps", str(steps), *args]


def restored(host: Host, rank: int) -> list[tuple[int, str]]:
    path = host.job.directory / "out" / f"restored-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split(" ", 2)[1]), line.split(" ", 2)[2]) for line in lines]


def finals(host: Host, ranks: int) -> list[float]:
    folder = host.job.directory / "out"
    return [float((folder / f"final-{rank}").read_text()) for rank in range(ranks)]


def end_whole(host: Host, ranks: int) -> None:
    """It ends soon, and each rank has made each step once."""
    folder = host.job.directory / "out"
    (folder / "enough").touch()
    assert host.job.wait() == 0, host.job.stderr
    assert finals(host, ranks) == [float((folder / "end").read_text()) + 1] * ranks


def until_restored(host: Host, rank: int) -> tuple[int, str]:
    """The step with which the second world begins, and what the rank says about it."""
    eventually(lambda: len(restored(host, rank)) >= 2, f"rank {rank} has restored", job=host.job)
    return restored(host, rank)[-1]


def copied_step(*hosts: Host) -> int:
    """The newest step of which each of the hosts has a copy of another's part."""
    return min(max(int(one["step"]) for one in fetched(host) if one["problem"] == '""')
               for host in hosts)


def until_fetched(host: Host, step: int) -> None:
    eventually(lambda: any(int(one["step"]) >= step and one["problem"] == '""'
                           for one in fetched(host)),
               f"{host.name} has a copy of step {step} or later; {fetched(host)[-3:]}")


def start_pair_and_spare(hosts: list[Host], *args: str) -> None:
    """Two hosts train, the third is a spare. Each has arenas that the others cannot see."""
    first, second, third = hosts
    words = script(first, *args, steps=ENDLESS)
    first.job.env |= STEADY
    join = start([first, second], "--nnodes", "2:3", "--grow", "never", script=words)
    first.job.until_stepping(2, beyond=5)
    third.start(["--nnodes", "2:3", "--grow", "never", "--join", join], words)
    until_state(third, first, "spare")


def test_a_lost_host_costs_a_fetch(hosts: list[Host]) -> None:
    """Row 40: a node is replaced, its memory is gone; its image is on another host."""
    first, second, third = hosts
    start_pair_and_spare(hosts, "--cut", *RARELY)
    for host in (first, second):
        until_fetched(host, 30)
    copied = copied_step(first, second)
    second.crash()
    second.boot()  # its memory is empty
    step, why = until_restored(first, 1)
    end_whole(first, 2)
    decided = first.job.events("restore_decided")[-1]
    assert decided["details"]["from"] == "memory"
    assert f"rank 1's from {first.name}'s memory" in why, why
    assert restored(first, 0)[-1][0] == step, "one step for all"
    assert step > copied, "the step after the one that was copied, or a later one"
    assert fetched(third)[0]["rank"] == "1"
    assert not first.job.events("checkpoint_committed")[:-1], "storage had no part in it"


def test_a_step_with_its_copies_stays_while_the_next_is_copied(hosts: list[Host]) -> None:
    """A host is lost in the middle of copying, many saves after the step that has its copies."""
    first, second, _third = hosts
    start_pair_and_spare(hosts, "--cut", *RARELY, "--pace", "0.02")
    for host in (first, second):
        until_fetched(host, 30)
        # 200 kB take a second, or thirty saves.
        host.slow_down(bulk_port(host.job, host.name), "2mbit")
    newest = max(int(fetched(host)[-1]["step"]) for host in (first, second))
    for host in (first, second):
        until_fetched(host, newest + 1)
    copied = copied_step(first, second)
    first.job.until_stepping(2, beyond=copied + 15)
    second.crash()
    second.boot()
    begun, _ = until_restored(first, 0)
    end_whole(first, 2)
    decided = first.job.events("restore_decided")[-1]
    assert decided["details"]["from"] == "memory", decided
    assert begun > copied, "the step after the one that was copied"
    assert not first.job.events("checkpoint_committed")[:-1], "storage had no part in it"


def test_row_42_a_rack_that_is_lost_comes_back_to_memory(hosts: list[Host]) -> None:
    """Two of three hosts at once: what they had is on the one in another failure domain."""
    first, *rack = hosts
    for host, domain in zip(hosts, ("rack-a", "rack-b", "rack-b"), strict=True):
        host.job.env["PACELINE_FAILURE_DOMAIN"] = domain
    first.job.env |= STEADY
    start(hosts, "--nnodes", "3",
          script=script(first, "--cut", *RARELY, "--pace", "0.01", steps=ENDLESS))
    for rank in ("1", "2"):
        eventually(lambda rank=rank: any(one["rank"] == rank and int(one["step"]) >= 30
                                         for one in fetched(first)), "the other rack has its copy")
    copied = min(max(int(one["step"]) for one in fetched(first) if one["rank"] == rank)
                 for rank in ("1", "2"))
    for host in rack:
        host.crash()
        host.boot()
    first.job.until_event("node_lost", 2)
    for host in rack:
        host.start(["--resume"])
    begun = [until_restored(first, rank) for rank in (1, 2)]
    end_whole(first, 3)
    assert first.job.events("restore_decided")[-1]["details"]["from"] == "memory"
    for step, why in begun:
        assert step > copied and f"from {first.name}'s memory" in why, why
    assert not first.job.events("checkpoint_committed")[:-1], "storage had no part in it"


def test_equal_tensors_are_not_sent_twice(hosts: list[Host]) -> None:
    """Data parallel ranks are copies of each other: only the lost one's host fetches, once."""
    first, second, third = hosts
    start_pair_and_spare(hosts, *RARELY)
    first.job.until_stepping(2, beyond=100)
    assert not fetched(first) and not fetched(second)
    second.crash()
    second.boot()
    step, why = until_restored(first, 1)
    end_whole(first, 2)
    assert step >= 100 and f"from {first.name}'s memory" in why, why
    assert [one["rank"] for one in fetched(third)] == ["0"]


def test_crashes_during_the_recovery_cost_no_step(hosts: list[Host]) -> None:
    """Row 50: the replacement is killed again and again while it restores."""
    first, second, third = hosts
    start_pair_and_spare(hosts, "--cut", *RARELY, "--pace", "0.02")
    for host in (first, second):
        until_fetched(host, 30)
    second.crash()
    second.boot()
    floor = 30
    for killed in range(2):
        eventually(lambda count=2 + killed: len(restored(first, 1)) >= count, "it has restored")
        step, _ = restored(first, 1)[-1]
        assert step >= floor, "no step is lost by it"
        floor = step
        for pid in first.job.rank_pids(third.name):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(restored(first, 1)) >= 4, "it has restored once more")
    end_whole(first, 2)


def test_a_ticket_tells_when_a_second_host_has_it(hosts: list[Host]) -> None:
    first, second, _ = hosts
    text = first.job.directory / "ticket.py"
    out = first.job.directory / "told"
    text.write_text(
        "import paceline.torch as pl, torch\n"
        "state = {'t': torch.full((1000,), float(pl.rank()))}\n"
        "c = pl.Checkpointer('ckpt', every=1000000, replicas=1)\n"
        "c.restore(state)\n"
        "t = c.save(3, state)\n"
        "t.wait('replicated')\n"
        f"open({str(out)!r} + str(pl.rank()), 'w').write('copied')\n"
        "c.close()\n")
    first.job.be_patient()
    start([first, second], "--nnodes", "2", script=[str(text)])
    assert first.job.wait() == 0, first.job.stderr
    assert [Path(f"{out}{rank}").read_text() for rank in range(2)] == ["copied"] * 2
    for host in (first, second):
        assert [one["step"] for one in fetched(host)] == ["3"]


def test_on_one_host_a_ticket_says_that_there_is_no_second(job) -> None:
    text = job.directory / "ticket.py"
    text.write_text(
        "import paceline.torch as pl, torch\n"
        "state = {'t': torch.zeros(1000)}\n"
        "c = pl.Checkpointer('ckpt')\n"
        "c.restore(state)\n"
        "try:\n"
        "    c.save(3, state).wait('replicated')\n"
        "except pl.CheckpointError as error:\n"
        "    open('told', 'w').write(str(error))\n"
        "c.close()\n")
    job.start(["--standalone", "--local-nodes", "2", "--nproc-per-node", "1"], [str(text)])
    assert job.wait() == 0, job.stderr
    assert "the job has no second host" in (job.directory / "told").read_text()


def test_a_new_job_reads_storage_once_for_all_hosts(hosts: list[Host]) -> None:
    """Three hosts of equal ranks: one reads the file, the others take it from each other."""
    first = hosts[0]
    words = script(first, *RARELY, steps=30)
    first.job.be_patient()
    start(hosts, "--nnodes", "3", script=words)
    assert first.job.wait() == 0, first.job.stderr
    then = again(hosts)
    words = script(then[0], *RARELY, steps=60)
    then[0].job.be_patient()
    start(then, "--nnodes", "3", script=words)
    for host in then:
        assert host.job.wait() == 0, host.job.stderr
    assert finals(then[0], 3) == [60.0] * 3
    for rank in range(3):
        step, why = restored(then[0], rank)[-1]
        assert step == 30 and "from step-29" in why
    # The file was read by one agent, the notes by each rank.
    read = {host.name: [one["from"] for one in fetched(host)] for host in then}
    readers = [name for name, froms in read.items() if any("/ckpt/" in one for one in froms)]
    assert len(readers) == 1, read
    assert all(len(froms) == 1 for froms in read.values()), read
