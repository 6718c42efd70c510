"""Fixtures: one cluster for all tests of a run, and a namespace of it for each test."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "binaries"))

from cluster import Cluster, Options, eventually, missing_commands
from elastic import install
from programs import missing_programs, program_folder
from training import STEPS, RunningJob, TrainingJob

COMMANDS = ("containerd", "ctr", "runc", "nft", "busybox", "openssl", "nsenter", "unshare",
            "setpriv", "ip", "sysctl")


def what_lacks() -> str:
    """Why no cluster can be made here, or "" if one can."""
    if os.geteuid() != 0:
        return "it takes root: namespaces, mounts and control groups"
    if missing := missing_commands(*COMMANDS):
        return f"no {', '.join(missing)} here: `make k8s-binaries` installs them"
    if missing := missing_programs():
        return (f"{len(missing)} of its programs are not built, {missing[0]} among them: "
                "`make k8s-binaries`, 15 minutes on two cores")
    return ""


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    if lacking := what_lacks():
        pytest.skip(f"KUBERNETES NOT TESTED: {lacking}")


def processes_with(text: str) -> list[str]:
    """Command lines of living processes that have `text` in them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


@pytest.fixture(scope="session")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Cluster]:
    """Makes a cluster of the given options, which the test opens with `with`."""
    base = tmp_path_factory.mktemp("k8s")
    made: list[Cluster] = []

    def make(**options) -> Cluster:
        # Its name is that of control groups, so it is unique on this host.
        directory = base / f"paceline-k8s-{os.getpid()}-{len(made)}"
        made.append(Cluster(directory, Options(binaries=program_folder(), **options)))
        return made[-1]

    return make


@pytest.fixture(scope="session")
def _cluster(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with make_cluster() as made:
        print("\n".join(f"{seconds:5.1f} s {what}" for seconds, what in made.timeline))
        yield made
    left = processes_with(str(made.directory))
    assert not left, f"processes that outlived their cluster: {left}"


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """Three nodes that take pods. A test that breaks one mends it, or this fails the next."""
    _cluster.until_placeable(*_cluster.nodes)
    return _cluster


@pytest.fixture(scope="session")
def operator(_cluster: Cluster) -> None:
    install(_cluster)


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A Kubernetes namespace with the test's name; with it goes all that the test made."""
    words = re.findall(r"[a-z0-9]+", request.node.name.removeprefix("test_").lower())
    name = "-".join(words)[-60:].strip("-")
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    cluster.kubectl("delete", "pods", "--all", "--namespace", name, "--force",
                    "--grace-period=0", "--wait=false")
    eventually(lambda: not cluster.pods(namespace=name), f"the pods of {name} are gone")


@pytest.fixture
def train(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[..., RunningJob]:
    """Starts a training job; its storage is a folder of the test. Without `is_named` its pods have
    no names before `publish_names`."""
    def start(name: str = "train", is_named: bool = True, **options) -> RunningJob:
        job = TrainingJob(name=name, namespace=namespace, storage=tmp_path / name, **options)
        return RunningJob(cluster, job, is_named)
    return start


@pytest.fixture(scope="session")
def digests() -> dict[int, str]:
    """Digests of undisturbed runs by their number of ranks, as `undisturbed` leaves them."""
    return {}


@pytest.fixture
def undisturbed(digests: dict[int, str], train: Callable[..., RunningJob]) -> Callable[[int], str]:
    """The digest that a run of so many ranks ends with when nothing happens to it."""
    def ask(node_count: int) -> str:
        if node_count not in digests:
            job = train("calm", node_count=node_count, step_count=STEPS, pace_s=0)
            job.until_done()
            digests[node_count] = job.digest()
        return digests[node_count]
    return ask
