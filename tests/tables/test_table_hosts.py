"""Workers and table servers on three hosts, each with its own network and runtime directory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hosts import ENDPOINT, Host, join_string, needs_hosts, small_cluster
from job import eventually
from test_table_servers import (
    LONG,
    WORKER,
    expect_counts,
    kill,
    running,
    snapshots,
    tasks_of,
    until_rows,
)

pytestmark = needs_hosts
SAMPLES = 3_000


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    with small_cluster(tmp_path) as cluster:
        yield cluster


def begin(hosts: Sequence[Host], *flags: str) -> None:
    """Three workers and three servers. All wait before sample 2,500 for the file `go`."""
    job = hosts[0].job
    job.be_patient()
    script = [str(WORKER), "--out", str(job.state / "rows.json"), "--samples", str(SAMPLES),
              "--batch", "10", "--delay", "0.001", "--hold", str(job.state / "go"),
              "--pause-at", "2500"]

    line = ["--rdzv-endpoint", ENDPOINT, "--nnodes", "3", "--workers", "3", "--ps", "3",
            "--tables", str(job.directory / "tables"), *flags]
    job.start([*line, "--tls"], script, hosts[0].inside())
    join = join_string(hosts[0])
    for host in hosts[1:]:
        host.job.start([*line, "--join", join], script, host.inside())


def on(host: Host, first: Host) -> set[str]:
    return {name for name, task in tasks_of(first.job).items() if task["node"] == host.name}


def test_a_server_of_another_host_is_killed_and_each_sample_counts_once(hosts: list[Host]) -> None:
    begin(hosts)
    first = hosts[0].job
    until_rows(first, 300)
    assert all(on(host, hosts[0]) for host in hosts), "each host has tasks"
    away = next(name for name in sorted(on(hosts[1], hosts[0])) if name.startswith("ps-"))
    eventually(lambda: snapshots(first, int(away[3:])) > 0, f"{away} has a snapshot", job=first)
    kill(first, away)
    kill(first, next(name for name in sorted(on(hosts[2], hosts[0])) if name.startswith("worker")))
    first.let_go()
    assert first.wait() == 0, first.stderr
    expect_counts(first, SAMPLES)


def test_the_tasks_of_a_lost_host_start_on_the_others_while_these_go_on(hosts: list[Host]) -> None:
    begin(hosts)
    first = hosts[0].job
    until_rows(first, 300)
    goes = on(hosts[2], hosts[0])
    stay = {name: running(first, name) for name in tasks_of(first) if name not in goes}
    for name in goes:
        if name.startswith("ps-"):
            eventually(lambda number=int(name[3:]): snapshots(first, number) > 0,
                       f"{name} has a snapshot", job=first)
    hosts[2].crash()
    eventually(lambda: not on(hosts[2], hosts[0]), "its tasks have other nodes", job=first)
    for name in goes:
        running(first, name)
    assert {name: running(first, name) for name in stay} == stay
    first.let_go()
    assert first.wait() == 0, first.stderr
    expect_counts(first, SAMPLES)


def test_a_host_with_another_directory_is_named(hosts: list[Host]) -> None:
    # A folder of the same name that only host2 has, as where the shared one is not mounted.
    first = hosts[0].job
    tables = first.directory / "tables"
    tables.mkdir(mode=0o700)
    own = first.directory / "own"
    own.mkdir(mode=0o700)
    inside = hosts[2].inside
    mount = f"mount --bind {own} {tables} && "
    hosts[2].inside = lambda: [  # type: ignore[method-assign]
        mount + word if "exec \"$@\"" in word else word for word in inside()]
    begin(hosts, "--max-restarts", "1")
    assert first.wait() != 0
    logs = [*first.run_dir.glob("logs/**/*.err"), *hosts[2].job.directory.rglob("*.err")]
    said = first.stderr + "".join(path.read_text() for path in logs)
    assert "PL-E206" in said and "share" in said, said


@LONG
def test_agents_and_links_come_and_go(hosts: list[Host]) -> None:
    begin(hosts)
    first = hosts[0].job
    until_rows(first, 200)
    for index, host in enumerate(hosts[1:], 1):
        host.link("down")
        host.link("up")
        os.kill(host.job.agent_pid(host.name), signal.SIGKILL)
        until_rows(first, 200 + 200 * index)
    first.let_go()
    assert first.wait() == 0, first.stderr
    expect_counts(first, SAMPLES)
