"""Servers and workers come and go while a job trains; each sample counts once in each row."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from job import Job, JsonDict, eventually
from test_commands import checked
from test_table_servers import (
    begin,
    expect_counts,
    kill,
    running,
    tasks_of,
    until_let_go,
    until_rows,
)

PARTITIONS = 4096


def scale(job: Job, *words: str) -> None:
    asked = job.command("tasks", "scale", *words, "--job", str(job.run_dir))
    assert asked.returncode == 0, asked.stderr


def shares(job: Job) -> dict[str, int]:
    """The partitions of each server that answers."""
    told = checked(job.command("tasks", "--json", "--job", str(job.run_dir)).stdout)
    return {task["name"]: task["partitions"] for task in told["tasks"] if "partitions" in task}


def until_spread(job: Job, servers: int) -> None:
    """Each of the servers has its share of the partitions, and there are no others."""
    names = {f"ps-{number}" for number in range(servers)}

    def ask() -> bool:
        if {name for name in tasks_of(job) if name.startswith("ps-")} != names:
            return False
        now = shares(job)
        even = {PARTITIONS // servers, PARTITIONS // servers + 1}
        return now.keys() == names and set(now.values()) <= even
    eventually(ask, f"{servers} servers have equally many partitions", job=job)


def moves(job: Job) -> list[JsonDict]:
    return job.events("tables_moved")


def test_two_servers_become_four_and_two_again_while_workers_push(job: Job) -> None:
    begin(job, 6_000, 10, "--delay", "0.002", *until_let_go(job, 5_500))
    until_rows(job, 200)
    before = {name: running(job, name) for name in ("worker-0", "worker-1", "ps-0", "ps-1")}
    scale(job, "ps=4", "worker=3")
    # Before anybody asks the servers themselves, which would wake them.
    eventually(lambda: {"ps-2", "ps-3"} <= {move["sentence"].split()[-1] for move in moves(job)},
               "both new servers have partitions", job=job)
    until_spread(job, 4)
    extra = [running(job, name) for name in ("worker-2", "ps-2", "ps-3")]
    scale(job, "ps=2", "worker=2")
    until_spread(job, 2)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in extra),
               "the processes that are too many are gone", job=job)
    assert "worker-2" not in tasks_of(job)
    after = {name: running(job, name) for name in before}
    assert after == before, "no task that stayed was restarted"
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 6_000)
    assert len(moves(job)) >= 16


def test_a_server_is_killed_while_its_partitions_move(job: Job) -> None:
    begin(job, 6_000, 10, "--delay", "0.002", *until_let_go(job, 5_500))
    until_rows(job, 200)
    scale(job, "ps=4")
    eventually(lambda: moves(job), "a partition has moved", job=job)
    kill(job, "ps-0")
    running(job, "ps-2")
    kill(job, "ps-2")
    until_spread(job, 4)
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 6_000)


@pytest.mark.parametrize("name", ["ps-1", "ps-2"])
def test_a_frozen_server_goes_on_with_its_move(job: Job, name: str) -> None:
    begin(job, 4_000, 10, "--delay", "0.002", *until_let_go(job, 3_500))
    until_rows(job, 200)
    scale(job, "ps=3")
    pid = running(job, name)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(pid, signal.SIGCONT)
    until_spread(job, 3)
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 4_000)


def test_what_cannot_be_is_refused_in_four_parts(job: Job) -> None:
    begin(job, 200, 10, "--hold", str(job.state / "go"))
    until_rows(job, 208)
    place = ("--job", str(job.run_dir))
    for words, code in ((("ps=0",), "PL-E300"), (("pss=2",), "PL-E300"), ((), "PL-E300"),
                        (("ps=2", "ps=3"), "PL-E300"), (("worker=x",), "PL-E300"),
                        (("ps=4000",), "PL-E301")):
        done = job.command("tasks", "scale", *words, *place)
        assert done.returncode == 2, (words, done.stderr)
        assert code in done.stderr, (words, done.stderr)
    said = job.command("tasks", "scale", "ps=3", "--dry-run", *place)
    assert said.returncode == 0, said.stderr
    assert "from 2 workers and 2 table servers to 2 workers and 3 table servers" in said.stdout
    told = checked(job.command("tasks", "scale", "ps=3", "--dry-run", "--json", *place).stdout)
    assert (told["workers"], told["servers"], told["dry_run"]) == (2, 3, True)
    assert set(tasks_of(job)) == {"worker-0", "worker-1", "ps-0", "ps-1"}
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 200)


def test_a_later_run_with_fewer_servers_loads_what_has_moved(job: Job) -> None:
    begin(job, 1_000, 10, *until_let_go(job, 900))
    until_rows(job, 200)
    scale(job, "ps=3")
    until_spread(job, 3)
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 1_000)
    file = job.directory / "counts.safetensors"
    told = checked(job.command("tables", "export", "counts", str(job.directory / "tables"),
                               "-o", str(file), "--json").stdout)
    assert told["rows"] == 1_008
