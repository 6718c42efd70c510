"""A small cluster: network namespaces that are joined by a bridge, `paceline run` typed in each.

A host here has its own network, name, /etc/hosts, /dev/shm, boot id and runtime directory. The boot
id is a file that is mounted over the kernel's in the host's mount namespace, and so is the folder
for shared memory: the product needs no switch for them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from job import DEADLINE_S, Job, JsonDict, eventually, runtime_dir

PREFIX = f"plt{os.getpid()}-"  # names of namespaces of these tests
ENDPOINT = "host0:29400"
COUNT = 3
# Arguments: host name, /etc/hosts, boot id, folder in memory, command …
ENTER = ('hostname "$1" && mount --bind "$2" /etc/hosts && '
         'mount --bind "$3" /proc/sys/kernel/random/boot_id && '
         'mount --bind "$4" /dev/shm && shift 4 && exec "$@"')


def run(*words: str, must: bool = True) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not must, f"{' '.join(words)}: {done.stderr}"
    return done.returncode == 0


def ip(words: str, must: bool = True) -> bool:
    return run("ip", *words.split(), must=must)


def address(index: int) -> str:
    return f"10.77.0.{index + 1}"


def address_v6(index: int) -> str:
    return f"fd77::{index + 1}"


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"{PREFIX}probe"
    if not ip(f"netns add {probe}", must=False):
        return False
    works = run("ip", "netns", "exec", probe, "unshare", "--uts", "true", must=False)
    return ip(f"netns del {probe}") and works


needs_hosts = pytest.mark.skipif(
    not can_make_hosts(),
    reason="SEVERAL HOSTS NOT TESTED: needs root and network namespaces (ip netns, veth)")


def host_job(directory: Path, name: str) -> Job:
    return Job(directory, name, is_alone=True)  # nothing of a host outlives it


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
        self.memory = Path(f"/dev/shm/{self.space}")
        job.env = {**job.env, "PACELINE_RUNTIME_DIR": self.runtime}
        job.command = self.command  # type: ignore[method-assign]
        self.boot()

    def boot(self) -> None:
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        # So are /run and /dev/shm.
        shutil.rmtree(self.runtime, ignore_errors=True)
        shutil.rmtree(self.memory, ignore_errors=True)
        self.memory.mkdir(mode=0o1777)

    def inside(self) -> list[str]:
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", ENTER, "sh",
                self.name, str(self.hosts_file), str(self.boot_id), str(self.memory)]

    def start(self, flags: Sequence[str], script: Sequence[str] = ()) -> None:
        script = script or Job.steps_script(self.job.directory / "host0-state", 100000)
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

    def slow_down(self, port: int, rate: str) -> None:
        """What leaves from that port of this host, and nothing else; `rate` in tc's words."""
        card = "dev eth0"
        for words in (f"qdisc add {card} root handle 1: htb default 1 r2q 1000",
                      f"class add {card} parent 1: classid 1:1 htb rate 1gbit",
                      f"class add {card} parent 1: classid 1:2 htb rate {rate}",
                      f"filter add {card} parent 1: protocol ip u32"
                      f" match ip sport {port} 0xffff flowid 1:2"):
            run("ip", "netns", "exec", self.space, "tc", *words.split())

    def mute(self) -> None:
        """One way only: the host hears everybody, and nobody hears the host."""
        for other in range(COUNT):
            if other != self.index:
                ip(f"-n {self.space} route add blackhole {address(other)}/32")

    def unmute(self) -> None:
        for other in range(COUNT):
            if other != self.index:
                ip(f"-n {self.space} route del blackhole {address(other)}/32")


def give_address(space: str, index: int, has_v4: bool) -> None:
    """With IPv6 alone, not even 127.0.0.1 is there."""
    if has_v4:
        ip(f"-n {space} addr add {address(index)}/24 dev eth0")
        return
    ip(f"-n {space} addr del 127.0.0.1/8 dev lo")
    ip(f"-n {space} addr add {address_v6(index)}/64 dev eth0 nodad")


@contextmanager
def small_cluster(tmp_path: Path, has_v4: bool = True) -> Iterator[list[Host]]:
    """host0-2 with addresses 10.77.0.1-3 on one bridge, which has a namespace of its own. Without
    `has_v4`, their addresses are fd77::1-3, and no host has an address of IPv4."""
    spaces = [f"{PREFIX}{i}" for i in range(COUNT)]
    switch = f"{PREFIX}sw"
    names = tmp_path / "hosts"
    local, of = ("127.0.0.1", address) if has_v4 else ("::1", address_v6)
    names.write_text(f"{local} localhost\n" + "".join(
        f"{of(i)} host{i}\n" for i in range(COUNT)))
    for space in [switch, *spaces]:
        ip(f"netns del {space}", must=False)
        ip(f"netns add {space}")
        ip(f"-n {space} link set lo up")
    ip(f"-n {switch} link add br0 type bridge")
    ip(f"-n {switch} link set br0 up")
    for i, space in enumerate(spaces):
        ip(f"link add eth0 netns {space} type veth peer name p{i} netns {switch}")
        ip(f"-n {switch} link set p{i} master br0 up")
        ip(f"-n {space} link set eth0 up")
        give_address(space, i, has_v4)
    made = [Host(i, host_job(tmp_path, f"host{i}"), names) for i in range(COUNT)]
    yield made
    for host in made:
        host.crash()
        shutil.rmtree(host.runtime, ignore_errors=True)
        shutil.rmtree(host.memory, ignore_errors=True)
    for space in [switch, *spaces]:
        ip(f"netns del {space}", must=False)


def again(hosts: Sequence[Host]) -> list[Host]:
    """The same hosts after a reboot, for another job in the same directory."""
    made = []
    for host in hosts:
        host.job.wait()
        # A starter ends a moment later, and would remove the socket of the next one.
        eventually(lambda host=host: not host.pids(), "nothing of the former job lives")
        job = host_job(host.job.directory, f"{host.job.run_dir.name}-again")
        job.env |= {name: value for name, value in host.job.env.items() if name.startswith("AWS_")}
        made.append(Host(host.index, job, host.hosts_file))
    return made


def bulk_port(job: Job, node: str) -> int:
    """Of the channel by which other hosts fetch from this node."""
    log = job.run_dir / "logs" / node / "agent.log"

    def told() -> re.Match[str] | None:
        said = log.read_text() if log.exists() else ""
        return re.search(r"\bpeers address=\S+:(\d+)", said)

    return int(eventually(told, f"{node} listens", job=job)[1])


def fetched(host: Host) -> list[dict[str, str]]:
    """What the host's agent fetched, oldest first."""
    log = host.job.run_dir / "logs" / host.name / "agent.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in lines
            if "image_fetched rank=" in line]


def join_string(first: Host) -> str:
    found = eventually(lambda: re.search(r"--join '(\S+)'", first.job.stderr),
                       "a join string", job=first.job)
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

    return eventually(ask, f"{names} train beyond {beyond}", job=first.job)


def start(hosts: Sequence[Host], *flags: str, script: Sequence[str] = ()) -> str:
    """The others ask as soon as there is a join string: before host0's master is there."""
    first, *others = hosts
    first.start([*flags, "--tls"], script)
    join = join_string(first)
    for host in others:
        host.start([*flags, "--join", join], script)
    return join
