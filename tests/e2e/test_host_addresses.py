"""Hosts with IPv6 alone, and hosts whose names lead nowhere. The ranks are those of a plain script
that uses gloo, because gloo looks its own address up by the host's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hosts import (
    Host,
    address,
    join_string,
    needs_hosts,
    start,
    until_training,
)
from job import SCRIPTS

pytestmark = needs_hosts


def gloo_script(hosts: Sequence[Host]) -> tuple[list[str], Path]:
    written = hosts[0].job.directory / "sum"
    return [str(SCRIPTS / "gloo_sum.py"), str(written)], written


def all_end_well(hosts: Sequence[Host]) -> None:
    for host in hosts:
        assert host.job.wait() == 0, host.job.stderr


def test_three_hosts_train_over_ipv6_alone(v6_hosts: list[Host]) -> None:
    first = v6_hosts[0]
    start(v6_hosts, "--nnodes", "3")
    until_training(first, 3, beyond=3)
    for host in v6_hosts:
        done = host.command("status", "--job", str(host.job.run_dir))
        assert done.returncode == 0, f"{host.name}: {done.stdout}{done.stderr}"
    assert first.job.card["master"]["http"].startswith("[::1]:")


def test_a_host_with_ipv6_alone_trains_by_itself(v6_hosts: list[Host]) -> None:
    first = v6_hosts[0]
    script, written = gloo_script(v6_hosts)
    first.hosts_file.write_text("")  # gloo would take 127.0.0.1
    first.job.start(["--nproc-per-node", "2"], script, first.inside())
    all_end_well([first])
    assert written.read_text() == "2"


@pytest.mark.parametrize("names", ["", "127.0.1.1 host0 host1 host2\n"],
                         ids=["no name", "loopback"])
def test_gloo_finds_hosts_whose_names_lead_nowhere(hosts: list[Host], names: str) -> None:
    first, *others = hosts
    first.hosts_file.write_text(f"127.0.0.1 localhost\n{names}")
    script, written = gloo_script(hosts)
    flags = ["--nnodes", "3", "--rdzv-endpoint", f"{address(0)}:29400"]
    first.start([*flags, "--tls"], script)
    join = join_string(first)
    for host in others:
        host.start([*flags, "--join", join], script)
    all_end_well(hosts)
    assert written.read_text() == "3"
