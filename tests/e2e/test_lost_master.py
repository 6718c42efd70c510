"""The master's host is lost for good, or comes back with another job: what the other hosts say."""

from __future__ import annotations

from hosts import ENDPOINT, Host, again, needs_hosts, start, until_training
from job import eventually

pytestmark = needs_hosts


def test_other_hosts_say_that_the_master_is_lost_and_can_be_stopped(hosts: list[Host]) -> None:
    """No platform starts another master. All commands on another host name the lost one."""
    first, second, third = hosts
    start(hosts, "--nnodes", "3")
    until_training(first, 3, beyond=3)
    first.crash()
    for host in (second, third):
        eventually(lambda host=host: f"the master at {ENDPOINT} does not answer" in host.job.stderr,
                   f"{host.name} says so", job=host.job)
    run_dir = str(second.job.run_dir)
    for words in (["status"], ["why"], ["events"]):
        done = second.command(*words, "--job", run_dir)
        assert done.returncode != 0
        assert "does not answer" in done.stderr and "runs on another host" in done.stderr, done
        assert ENDPOINT in done.stderr
    stopped = second.command("stop", "--job", run_dir)
    assert stopped.returncode == 0, stopped
    assert "stopping this host's part" in stopped.stderr
    assert second.job.wait() != 0
    eventually(lambda: not second.pids(), "nothing of the job lives on that host")


def test_a_new_job_at_the_address_refuses_agents_of_the_former_one(hosts: list[Host]) -> None:
    """As when the pod of a master is replaced, and its run directory went with the old one."""
    first, second, _ = hosts
    token = first.job.directory / "shared-token"
    token.write_text("a" * 64)
    token.chmod(0o600)
    flags = ["--nnodes", "2", "--insecure", "--token-file", str(token)]
    for host in (first, second):
        host.start(flags)
    until_training(first, 2, beyond=3)
    first.crash()
    (first,) = again([first])
    first.start(flags)
    assert second.job.wait() != 0
    assert "this address belongs to another job now" in second.job.stderr, second.job.stderr
    (second,) = again([second])
    second.start(flags)
    until_training(first, 2, beyond=3)
