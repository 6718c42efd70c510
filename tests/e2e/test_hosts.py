"""Several hosts: network namespaces that are joined by a bridge, `paceline run` typed in each.

A host here has its own network, name, /etc/hosts, boot id and runtime directory. The boot id is a
file that is mounted over the kernel's in the host's mount namespace: the product needs no switch
for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from job import DEADLINE_S, Job, JsonDict, eventually, runtime_dir

PREFIX = f"plt{os.getpid()}-"  # names of namespaces of these tests
ENDPOINT = "host0:29400"
COUNT = 3
# Arguments: host name, /etc/hosts, boot id, command …
ENTER = ('hostname "$1" && mount --bind "$2" /etc/hosts && '
         'mount --bind "$3" /proc/sys/kernel/random/boot_id && shift 3 && exec "$@"')


def run(*words: str, must: bool = True) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not must, f"{' '.join(words)}: {done.stderr}"
    return done.returncode == 0


def ip(words: str, must: bool = True) -> bool:
    return run("ip", *words.split(), must=must)


def address(index: int) -> str:
    return f"10.77.0.{index + 1}"


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"{PREFIX}probe"
    if not ip(f"netns add {probe}", must=False):
        return False
    works = run("ip", "netns", "exec", probe, "unshare", "--uts", "true", must=False)
    return ip(f"netns del {probe}") and works


pytestmark = pytest.mark.skipif(
    not can_make_hosts(),
    reason="SEVERAL HOSTS NOT TESTED: needs root and network namespaces (ip netns, veth)")


class Host:
    """One machine of a small cluster, and the `paceline run` that is typed there."""

    def __init__(self, index: int, job: Job, hosts_file: Path):
        self.index = index
        self.name = f"host{index}"
        self.space = f"{PREFIX}{index}"
        self.job = job
        self.boot_id = job.directory / f"{self.name}-boot-id"
        self.hosts_file = hosts_file
        self.runtime = f"{runtime_dir(job.directory)}-{index}"
        job.env = {**job.env, "PACELINE_RUNTIME_DIR": self.runtime}
        job.command = self.command  # type: ignore[method-assign]
        self.boot()

    def boot(self) -> None:
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        shutil.rmtree(self.runtime, ignore_errors=True)  # /run is empty after a boot

    def inside(self) -> list[str]:
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", ENTER, "sh",
                self.name, str(self.hosts_file), str(self.boot_id)]

    def start(self, flags: Sequence[str]) -> None:
        script = Job.steps_script(self.job.directory / "host0-state", 100000)
        self.job.start(["--nproc-per-node", "1", "--rdzv-endpoint", ENDPOINT, *flags], script,
                       self.inside())

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.inside(), *Job.command_line(*words)], cwd=self.job.directory,
                              env=self.job.env, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def pids(self) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True,
                                text=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def crash(self) -> None:
        """Every process of the host is gone at once, as when its power is cut."""
        while pids := self.pids():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if self.job.launcher is not None and self.job.launcher.pid in pids:
                self.job.launcher.wait()

    def link(self, state: str) -> None:
        ip(f"-n {PREFIX}sw link set p{self.index} {state}")

    def mute(self) -> None:
        """One way only: the host hears everybody, and nobody hears the host."""
        for other in range(COUNT):
            if other != self.index:
                ip(f"-n {self.space} route add blackhole {address(other)}/32")

    def unmute(self) -> None:
        for other in range(COUNT):
            if other != self.index:
                ip(f"-n {self.space} route del blackhole {address(other)}/32")


@pytest.fixture
def hosts(tmp_path: Path, make_job: Callable[..., Job]) -> Iterator[list[Host]]:
    """host0-2 with addresses 10.77.0.1-3 on one bridge, which has a namespace of its own."""
    spaces = [f"{PREFIX}{i}" for i in range(COUNT)]
    switch = f"{PREFIX}sw"
    names = tmp_path / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(
        f"{address(i)} host{i}\n" for i in range(COUNT)))
    for space in [switch, *spaces]:
        ip(f"netns del {space}", must=False)
        ip(f"netns add {space}")
        ip(f"-n {space} link set lo up")
    ip(f"-n {switch} link add br0 type bridge")
    ip(f"-n {switch} link set br0 up")
    for i, space in enumerate(spaces):
        ip(f"link add eth0 netns {space} type veth peer name p{i} netns {switch}")
        ip(f"-n {switch} link set p{i} master br0 up")
        ip(f"-n {space} addr add {address(i)}/24 dev eth0")
        ip(f"-n {space} link set eth0 up")
    made = [Host(i, make_job(f"host{i}"), names) for i in range(COUNT)]
    yield made
    for host in made:
        host.crash()
        shutil.rmtree(host.runtime, ignore_errors=True)
    for space in [switch, *spaces]:
        ip(f"netns del {space}", must=False)


def join_string(first: Host) -> str:
    found = eventually(lambda: re.search(r"--join '(\S+)'", first.job.stderr),
                       f"a join string; stderr:\n{first.job.stderr}")
    return found[1]


def state_of(host: Host, first: Host) -> str:
    node = first.job.node(host.name)
    return node["state"] if node else ""


def until_state(host: Host, first: Host, *states: str) -> None:
    eventually(lambda: state_of(host, first) in states,
               f"{host.name} is {' or '.join(states)}; its stderr:\n{host.job.stderr}")


def until_training(first: Host, count: int, beyond: int = 0) -> dict[str, JsonDict]:
    """The rank of each of host0 to host<count-1>, once exactly these hosts train."""
    names = {f"host{i}" for i in range(count)}

    def ask() -> dict[str, JsonDict] | None:
        status = first.job.status() or {"nodes": []}
        seated = [node for node in status["nodes"] if node["state"] == "seated"]
        ranks = {node["name"]: rank for node in seated for rank in node["ranks"]
                 if rank["state"] == "stepping" and (rank["step"] or 0) >= beyond}
        return ranks if len(seated) == count and set(ranks) == names else None

    return eventually(ask, f"{names} train beyond {beyond}; stderr:\n{first.job.stderr}")


def start(hosts: Sequence[Host], *flags: str) -> str:
    """The others ask as soon as there is a join string: before host0's master is there."""
    first, *others = hosts
    first.start([*flags, "--tls"])
    join = join_string(first)
    for host in others:
        host.start([*flags, "--join", join])
    return join


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


def test_a_host_that_is_cut_off_comes_back(hosts: list[Host]) -> None:
    cut_and_mend(hosts, lambda: hosts[2].link("down"), lambda: hosts[2].link("up"))


def test_a_host_that_nobody_hears_comes_back(hosts: list[Host]) -> None:
    cut_and_mend(hosts, hosts[2].mute, hosts[2].unmute)


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


@pytest.mark.parametrize(("grow", "state", "size"), [("now", "seated", 3), ("never", "spare", 2)])
def test_a_host_that_comes_late(hosts: list[Host], grow: str, state: str, size: int) -> None:
    first, second, third = hosts
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
    # The journal of the first host answers when nobody serves.
    assert first.job.events("job_finished")


def test_a_host_joins_and_trains_through_a_relay(hosts: list[Host]) -> None:
    """host0 does not answer host2 itself: its certificate, its agent's stream and its launcher's
    all go through host1. A relay that dies is no lost node for the job's other hosts for long."""
    first, second, third = hosts
    ip(f"-n {first.space} route add blackhole {address(third.index)}/32")
    flags = ["--nnodes", "2:3", "--grow", "now", "--relays", f"{second.name}:29401"]
    start(hosts, *flags)
    until_training(first, 3, beyond=3)
    assert first.job.card["relay"] == "" and third.job.card["relay"] == ""
    assert second.job.card["relay"] == f"{second.name}:29401"

    agent = (first.job.node(second.name) or {})["agent_pid"]
    before = max(rank["step"] for rank in until_training(first, 3).values())
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: (first.job.node(second.name) or {})["agent_pid"] not in (agent, 0),
               "host1 has a new agent, and with it a new relay")
    until_training(first, 3, beyond=before + 10)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    assert [host.job.wait() for host in hosts] == [143, 143, 143], third.job.stderr


def test_without_its_relays_a_host_finds_the_master(hosts: list[Host]) -> None:
    first, second, _ = hosts
    start([first, second], "--nnodes", "2", "--relays", "host2:29401")
    until_training(first, 2, beyond=3)
