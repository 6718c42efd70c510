"""Several hosts of one job: joining, going, and being cut off."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hosts import (
    ENDPOINT,
    Host,
    address,
    ip,
    join_string,
    needs_hosts,
    start,
    state_of,
    until_state,
    until_training,
)
from job import TOGETHER, Job, eventually

pytestmark = needs_hosts


def cut_and_mend(hosts: list[Host], cut: Callable[[], None], mend: Callable[[], None]) -> None:
    """host2 is lost and its rank numbers go; when it is back, its old rank is not."""
    first, _, third = hosts
    start(hosts, "--nnodes", "2:3", "--grow", "now")
    old = until_training(first, 3, beyond=3)[third.name]["pid"]
    cut()
    first.job.until_event("node_lost")
    until_training(first, 2)
    mend()
    assert until_training(first, 3)[third.name]["pid"] != old
    assert not Path(f"/proc/{old}").exists()


def test_three_hosts_train_when_one_is_late(hosts: list[Host]) -> None:
    first, second, third = hosts
    join = start([first, second], "--nnodes", "3")
    until_state(second, first, "spare", "seated")
    assert not first.job.ranks(), "two of three hosts do not train"
    third.start(["--nnodes", "3", "--join", join])
    until_training(first, 3, beyond=3)
    assert not first.job.events("rank_failed")


def token_flags(first: Host) -> list[str]:
    """The same line for every host, as platforms start them: nobody prints a join string first."""
    token = first.job.directory / "shared-token"
    token.write_text("a" * 64)
    token.chmod(0o600)
    return ["--insecure", "--token-file", str(token)]


def test_a_name_that_does_not_resolve_yet_is_waited_for(hosts: list[Host]) -> None:
    """A pod may run before its name is published. The host that bears the name waits as well."""
    first, second, _ = hosts
    names = first.hosts_file.read_text()
    first.hosts_file.write_text(names.replace("host0", "elsewhere"))
    flags = token_flags(first)  # once: the first host reads the file while the second one starts
    for host in (first, second):
        host.start(["--nnodes", "2", *flags])
    for host in (first, second):
        eventually(lambda job=host.job: "waiting for the host name host0" in job.stderr,
                   f"{host.name} says so", job=host.job)
    first.hosts_file.write_text(names)
    until_training(first, 2, beyond=3)


def test_a_name_that_led_elsewhere_at_first_starts_the_master_where_it_leads(
        hosts: list[Host]) -> None:
    """A pod is replaced, and for a moment its name still leads to the former one: here to host2,
    on which nothing runs."""
    first, second, _ = hosts
    names = first.hosts_file.read_text()
    first.hosts_file.write_text(names.replace("host0", f"host0-later\n{address(2)} host0"))
    flags = token_flags(first)
    for host in (first, second):
        host.start(["--nnodes", "2", *flags])
    for host in (first, second):
        eventually(lambda job=host.job: f"waiting for the master at {ENDPOINT}" in job.stderr,
                   f"{host.name} follows the name", job=host.job)
    first.hosts_file.write_text(names)
    until_training(first, 2, beyond=3)


def test_a_host_that_is_cut_off_comes_back(hosts: list[Host]) -> None:
    cut_and_mend(hosts, lambda: hosts[2].link("down"), lambda: hosts[2].link("up"))


def test_a_host_that_nobody_hears_comes_back(hosts: list[Host]) -> None:
    cut_and_mend(hosts, hosts[2].mute, hosts[2].unmute)


def steps_of_its_world(job: Job, rank: int) -> int:
    """How many that rank has made in the world in which rank 0 is now."""
    generation = job.steps_done(0)[-1][0] if job.steps_done(0) else -1
    return sum(of == generation for of, _ in job.steps_done(rank))


def test_a_host_that_is_silent_for_seconds_is_waited_for(hosts: list[Host]) -> None:
    """The script tells of no checkpoint, so to go on without the host would cost ten seconds."""
    first, _, third = hosts
    # No limit but those ten seconds.
    first.job.env |= {**TOGETHER, "PACELINE_TIMERS_LOST_AFTER_MAX": "60s"}
    start(hosts, "--nnodes", "2:3", "--grow", "now",
          script=Job.steps_script(first.job.state, 100_000))
    # A busy machine may lose a host before; the world that counts then is the one after it.
    eventually(lambda: steps_of_its_world(first.job, rank=2) > 1_000, "a thousand steps of three",
               job=first.job)
    before = until_training(first, 3)[third.name]
    known = [len(first.job.events(kind)) for kind in ("node_lost", "world_formed")]
    third.link("down")
    time.sleep(4)
    third.link("up")
    after = until_training(first, 3, beyond=before["step"] + 900)[third.name]
    assert after["pid"] == before["pid"]
    assert [len(first.job.events(kind)) for kind in ("node_lost", "world_formed")] == known


def test_a_host_that_reboots_comes_back(hosts: list[Host]) -> None:
    first, _, third = hosts
    start(hosts, "--nnodes", "2:3", "--grow", "now")
    until_training(first, 3, beyond=3)
    third.crash()
    first.job.until_event("node_lost")
    until_training(first, 2)
    third.boot()
    third.start(["--resume"])
    until_training(first, 3)
    boots = {event["details"]["boot_id"] for event in first.job.events("node_joined")
             if event["node"] == third.name}
    assert len(boots) == 2


def test_a_host_whose_processes_are_all_killed_comes_back(hosts: list[Host]) -> None:
    """As when the kernel kills a cgroup for want of memory: the launcher alone lives."""
    first, _, third = hosts
    start(hosts, "--nnodes", "3")
    old = until_training(first, 3, beyond=3)[third.name]["pid"]
    assert third.job.launcher is not None
    lost = len(first.job.events("node_lost"))
    agent = third.job.agent_pid(third.name)
    os.kill(agent, signal.SIGSTOP)  # it must not see its rank die
    # The agent last: its launcher starts the next one at once, which would adopt a living rank.
    others = [pid for pid in third.pids() if pid not in (third.job.launcher.pid, agent)]
    for pid in [*others, agent]:
        with suppress(ProcessLookupError):  # it may end with the one before
            os.kill(pid, signal.SIGKILL)
    first.job.until_event("node_lost", lost + 1)
    assert until_training(first, 3)[third.name]["pid"] != old
    assert third.job.launcher.poll() is None


@pytest.mark.parametrize(("grow", "state", "size"), [("now", "seated", 3), ("never", "spare", 2)])
def test_a_host_that_comes_late(hosts: list[Host], grow: str, state: str, size: int) -> None:
    first, second, third = hosts
    first.job.be_patient()  # a spare would take the place of a host that is lost
    flags = ["--nnodes", "2:3", "--grow", grow]
    join = start([first, second], *flags)
    step = max(rank["step"] for rank in until_training(first, 2, beyond=3).values())
    third.start([*flags, "--join", join])
    until_state(third, first, state)
    until_training(first, size, beyond=step + 1)
    assert state_of(third, first) == state


def test_a_host_with_the_certificate_of_another_node_is_refused(hosts: list[Host]) -> None:
    first, second, _ = hosts
    first.start(["--nnodes", "1:2", "--tls"])
    # From a file, as on a host where others may list the processes.
    secret = second.job.directory / "join"
    secret.touch(0o600)
    secret.write_text(join_string(first))
    second.start(["--nnodes", "1:2", "--grow", "now", "--join", str(secret)])
    until_training(first, 2)
    assert secret.read_text() not in (second.job.run_dir / "job.json").read_text()
    second.crash()
    card = second.job.card
    card["nodes"] = ["other"]
    (second.job.run_dir / "job.json").write_text(json.dumps(card))
    second.boot()
    second.start(["--resume"])
    assert second.job.wait() == 4
    words = second.job.stderr.partition("error[PL-E106]")[2]
    assert all(part in words for part in ("other", "where", "why", "host1", "fix")), words
    assert first.job.node("other") is None
    secret.chmod(0o644)
    open_to_all = second.command("run", "--rdzv-endpoint", ENDPOINT, "--join", str(secret),
                                 *Job.steps_script(second.job.state, 1))
    assert "error[PL-E103]" in open_to_all.stderr, open_to_all.stderr


def test_a_second_host_of_one_name_is_refused(hosts: list[Host]) -> None:
    first, second, third = hosts
    # The newcomer would have the place of a host that is silent for so long, and asks for as long.
    first.job.env |= {"PACELINE_TIMERS_LOST_AFTER": "6s"}
    flags = ["--nnodes", "2:3", "--grow", "now"]
    join = start([first, second], *flags)
    until_training(first, 2, beyond=3)
    third.start([*flags, "--join", join, "--node-name", second.name])
    assert third.job.wait() == 2
    words = third.job.stderr.partition("error[PL-E037]")[2]
    parts = ("where", "why", address(second.index), "fix", "--node-name")
    assert all(part in words for part in parts), third.job.stderr
    assert until_training(first, 2)[second.name]
    assert not first.job.events("node_lost")


def test_commands_reach_a_tls_job_from_each_host(hosts: list[Host]) -> None:
    first, second, _ = hosts
    first.job.be_patient()
    start([first, second], "--nnodes", "2")
    until_training(first, 2, beyond=3)
    for host in (first, second):
        status = host.job.status()
        assert status is not None and len(status["nodes"]) == 2, host.name
        assert [event["kind"] for event in host.job.events("world_formed")] == ["world_formed"]
        asked = ["--job", str(host.job.run_dir)]
        why = host.command("why", *asked)
        assert why.returncode == 0 and why.stdout, why.stderr
    stopped = second.command("stop", "--job", str(second.job.run_dir))
    assert stopped.returncode == 0, stopped.stderr
    codes = [host.job.wait() for host in (first, second)]
    assert codes == [143, 143], first.job.stderr + second.job.stderr
    eventually(lambda: not first.pids() and not second.pids(), "nothing is left on either host")
    # The journal of the first host answers when nobody serves. The other host has kept the end.
    assert first.job.events("job_finished")
    told = second.job.status()
    assert told is not None
    assert (told["job"]["phase"], told["job"]["exit_code"]) == ("finished", 143), told
    again = second.command("stop", *asked)
    assert again.returncode == 0 and "has ended already" in again.stderr, again.stderr
    why = second.command("why", *["--job", str(second.job.run_dir)])
    assert "has ended with exit code 143" in why.stderr and ENDPOINT in why.stderr, why.stderr


def test_a_host_that_joined_knows_how_its_job_had_ended(hosts: list[Host]) -> None:
    """A stopped job is waited for, with a word; a job that is done is not run again."""
    first, second, _ = hosts
    start([first, second], "--nnodes", "2",
          script=[*Job.steps_script(first.job.state, 40), "--hold", "20"])
    until_training(first, 2, beyond=3)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    assert [host.job.wait() for host in (first, second)] == [143, 143]
    second.start(["--resume"])
    eventually(lambda: "had ended with exit code 143: paceline stop was typed" in second.job.stderr,
               "it says what it waits for", job=second.job)
    first.start(["--resume"])
    first.job.let_go()
    assert [host.job.wait() for host in (first, second)] == [0, 0], second.job.stderr
    for host in (first, second):
        # The second host may ask a master that was resumed already: two runs.
        told = host.job.stderr.partition("before: ")[2]
        _, said, news = told.partition("` tell about them.")
        assert said and "ends the job with exit code 143" not in news, host.job.stderr
    for host in (first, second):
        host.start(["--resume"])
        assert host.job.wait() == 0, host.job.stderr
        assert "has ended already with exit code 0" in host.job.stderr


def train_through_a_relay(hosts: list[Host]) -> None:
    """host0 does not answer host2 itself: its certificate, its agent's stream and its launcher's
    all go through host1."""
    first, second, third = hosts
    ip(f"-n {first.space} route add blackhole {address(third.index)}/32")
    flags = ["--nnodes", "2:3", "--grow", "now", "--relays", f"{second.name}:29401"]
    start(hosts, *flags)
    until_training(first, 3, beyond=3)


def test_a_host_joins_and_trains_through_a_relay(hosts: list[Host]) -> None:
    """A relay that dies is no lost node for the job's other hosts for long."""
    first, second, third = hosts
    first.job.be_patient()
    train_through_a_relay(hosts)
    assert first.job.card["relay"] == "" and third.job.card["relay"] == ""
    assert second.job.card["relay"] == f"{second.name}:29401"

    agent = second.job.agent_pid(second.name)
    before = max(rank["step"] for rank in until_training(first, 3, beyond=1).values())
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: (first.job.node(second.name) or {}).get("agent_pid") not in (agent, None),
               "host1 has a new agent, and with it a new relay", job=first.job)
    until_training(first, 3, beyond=before + 10)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    assert [host.job.wait() for host in hosts] == [143, 143, 143], third.job.stderr


def test_a_relay_stays_for_a_host_that_is_between_two_calls(hosts: list[Host]) -> None:
    """The agent of host2 lost its stream with the relay, and comes back after the stop."""
    first, second, third = hosts
    first.job.be_patient()
    train_through_a_relay(hosts)
    rank = until_training(first, 3)[second.name]["pid"]
    slow = third.job.agent_pid(third.name)
    agent = second.job.agent_pid(second.name)
    os.kill(slow, signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: (first.job.node(second.name) or {}).get("agent_pid") not in (agent, None),
               "host1 has a new agent, and with it a new relay", job=first.job)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    eventually(lambda: not Path(f"/proc/{rank}").exists(), "the relay's host has ended its rank")
    time.sleep(1)  # a relay that did not wait would have gone
    os.kill(slow, signal.SIGCONT)
    assert [host.job.wait() for host in hosts] == [143, 143, 143], third.job.stderr


def test_a_relay_stays_until_the_hosts_behind_it_know_of_the_end(hosts: list[Host]) -> None:
    """The relay's host has ended its own ranks long before host2, which has no other way."""
    first, second, third = hosts
    train_through_a_relay(hosts)
    rank = until_training(first, 3)[second.name]["pid"]
    slow = third.job.agent_pid(third.name)
    os.kill(slow, signal.SIGSTOP)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    eventually(lambda: not Path(f"/proc/{rank}").exists(), "the relay's host has ended its rank")
    # An agent that would leave at once has left, and host2 would have missed its master by now.
    time.sleep(9)
    assert "does not answer" not in third.job.stderr, third.job.stderr
    os.kill(slow, signal.SIGCONT)
    assert [host.job.wait() for host in hosts] == [143, 143, 143], third.job.stderr


def test_without_its_relays_a_host_finds_the_master_within_seconds(hosts: list[Host]) -> None:
    """All are started together, and the host that was to be the relay never comes."""
    first, second, _ = hosts
    start([first, second], "--nnodes", "2", "--relays", "host2:29401")
    began = time.time()  # both are started; how late this test looks does not count
    joined = max(event["time"] for event in first.job.until_event("node_joined", 2))
    # Three rounds of at most 2 s. Rounds of 10 s would take longer.
    assert joined - began < 25, "each refused connection cost 10 s"
    until_training(first, 2, beyond=3)
