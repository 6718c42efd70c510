"""Jobs on a real Ray: submitted, healed, and ended as a user would see it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import ray
from paceline.integrations.ray import PacelineTrainer
from paceline.integrations.ray.calls import NAMESPACE, ask, kill
from paceline.integrations.ray.store import Store
from paceline.integrations.ray.submit import wait
from ray_cluster import PACELINE, RayCluster, RayJob, eventually, processes_of

STEPS = 300


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    made = RayCluster(raylets=4)
    ray.init(address=made.address, namespace=NAMESPACE, log_to_driver=False)
    yield made
    ray.shutdown()
    made.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the same training without Ray and without a fault."""
    directory = tmp_path_factory.mktemp("undisturbed") / "job"
    directory.mkdir()
    job = RayJob(None, "undisturbed", directory)  # type: ignore[arg-type]
    subprocess.run([PACELINE, "run", "--local-nodes", "2", "--nnodes", "2", "--run-dir",
                    str(directory / "run"), *job.script(STEPS)], check=True, capture_output=True)
    return job.digest()


def test_a_spare_takes_the_place_of_a_lost_raylet(cluster: RayCluster, tmp_path: Path,
                                                 undisturbed: str) -> None:
    job = RayJob(cluster, "spare", tmp_path / "job")
    job.submit("--nodes", "2", "--spares", "1", steps=STEPS)
    job.until_step(10)
    eventually(lambda: len(job.places()) == 3, "the spare runs")
    lost = job.seated()[0]
    cluster.kill(job.places()[lost])
    eventually(lambda: job.status()["summary"]["last"], "the master tells of the loss")
    job.until_step(job.step() + 10)
    why = cluster.run("why", "--on", "ray/spare")
    assert why.returncode == 0 and lost in why.stdout, why.stdout + why.stderr
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed
    eventually(lambda: not processes_of(job), f"no process is left: {processes_of(job)}")


def test_a_drained_raylet_is_left_without_a_lost_step(cluster: RayCluster, tmp_path: Path,
                                                     undisturbed: str) -> None:
    job = RayJob(cluster, "drained", tmp_path / "job")
    job.submit("--nodes", "2", "--spares", "1", steps=STEPS)
    job.until_step(10)
    eventually(lambda: len(job.places()) == 3, "the spare runs")
    leaving = job.seated()[0]
    raylet = job.places()[leaving]
    cluster.drain(raylet, seconds=240)
    eventually(lambda: raylet not in job.places().values(), "no node is on the drained raylet")
    job.until_step(job.step() + 10)
    events = cluster.run("events", "--on", "ray/drained", "--json")
    assert "Ray drains its raylet" in events.stdout, events.stdout + events.stderr
    assert "rank_failed" not in events.stdout
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed


def test_the_next_master_goes_on_when_its_raylet_is_lost(cluster: RayCluster, tmp_path: Path,
                                                        undisturbed: str) -> None:
    job = RayJob(cluster, "master", tmp_path / "job")
    job.submit("--nodes", "2", steps=STEPS)
    job.until_step(10)
    # The master needs no CPU, so it may share its raylet with a node.
    cluster.kill_host_of(ask(job.adapter(), "master"))
    eventually(lambda: job.status()["term"] == 2 and job.status()["summary"]["phase"] == "running",
               "a master of the second term sees the world train")
    job.until_step(job.step() + 10)
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed


def test_an_adapter_that_was_killed_finds_its_job_again(cluster: RayCluster, tmp_path: Path,
                                                       undisturbed: str) -> None:
    job = RayJob(cluster, "adapter", tmp_path / "job")
    job.submit("--nodes", "2", steps=STEPS)
    job.until_step(10)
    before = job.places()
    ray.kill(job.adapter(), no_restart=False)
    eventually(lambda: job.places() == before, "the same nodes run")
    assert job.status()["term"] == 1
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed


def test_the_adapters_raylet_is_lost_without_the_masters(cluster: RayCluster, tmp_path: Path,
                                                        undisturbed: str) -> None:
    job = RayJob(cluster, "without", tmp_path / "job")
    job.submit("--nodes", "2", "--spares", "1", steps=STEPS)
    job.until_step(10)

    def part() -> str:
        """The adapter's raylet. Before, masters are killed until they have another one."""
        host = ask(job.adapter(), "ray_node")
        if ask(ask(job.adapter(), "master"), "ray_node") == host:
            term = job.status()["term"]
            kill(ask(job.adapter(), "master"))
            eventually(lambda: job.status()["term"] > term, "the next master")
            return ""
        return host

    host = eventually(part, "adapter and master are on two raylets")
    term = job.status()["term"]
    if cluster.has_raylet(host):
        cluster.kill(host)
        eventually(lambda: ask(job.adapter(), "ray_node") != host, "Ray starts it elsewhere")
    else:
        ray.kill(job.adapter(), no_restart=False)  # it is on the head, which must live
    job.until_step(job.step() + 10)
    assert job.status()["term"] == term, "the master stayed"
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed


def masters_of(job: RayJob) -> dict[int, int]:
    """The processes of the job's masters and their launchers that can run, with their terms."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if not entry.name.isdigit():
                continue
            line = (entry / "cmdline").read_text(errors="replace")
            if f"/paceline-{job.name}-" not in line or not line.startswith(PACELINE):
                continue
            words = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            terms = [word.partition("=")[2] for word in words
                     if word.startswith("PACELINE_MASTER_TERM=")]
            if terms:
                found[int(entry.name)] = int(terms[0])
    return found


@pytest.mark.parametrize("is_reaped", [True, False])
def test_one_master_is_left_when_its_raylet_and_the_adapters_are_lost(
        cluster: RayCluster, tmp_path: Path, undisturbed: str, is_reaped: bool) -> None:
    """Ray ends no actor of a raylet that is a zombie."""
    job = RayJob(cluster, "both", tmp_path / "job")
    job.submit("--nodes", "2", "--spares", "1", steps=STEPS)
    job.until_step(10)
    hosts = [ask(job.adapter(), "ray_node"), ask(ask(job.adapter(), "master"), "ray_node")]
    lost = [host for host in dict.fromkeys(hosts) if cluster.has_raylet(host)]
    for host in lost:
        (cluster.kill if is_reaped else cluster.kill_unreaped)(host)
    if hosts[1] not in lost:
        kill(ask(job.adapter(), "master"))
    eventually(lambda: job.status()["term"] >= 2 and job.status()["summary"].get("phase")
               == "running", "a master of a later term sees the world train")
    eventually(lambda: set(masters_of(job).values()) == {job.status()["term"]},
               "the master of the first term has gone")
    job.until_step(job.step() + 10)
    job.let_go()
    assert job.wait() == 0
    assert job.digest() == undisturbed


def test_a_job_whose_master_is_frozen_is_stopped(cluster: RayCluster, tmp_path: Path) -> None:
    job = RayJob(cluster, "frozen", tmp_path / "job")
    job.submit("--nodes", "1", steps=STEPS)
    job.until_step(3)
    for pid in masters_of(job):
        os.kill(pid, signal.SIGSTOP)
    stopped = cluster.run("stop", "--on", "ray/frozen")
    assert stopped.returncode == 0, stopped.stderr
    assert job.wait() == 143
    eventually(lambda: not processes_of(job), "no process is left")


def test_what_ray_has_no_room_for_is_said(cluster: RayCluster, tmp_path: Path) -> None:
    job = RayJob(cluster, "large", tmp_path / "job")
    job.submit("--nodes", "1", "--cpus", "64", steps=STEPS)
    waiting = subprocess.Popen([PACELINE, "wait", "--on", "ray/large"], stderr=subprocess.PIPE,
                               text=True, env=os.environ | {"RAY_ADDRESS": cluster.address})
    assert waiting.stderr is not None
    line = waiting.stderr.readline()
    assert "large waits: Ray has no room for node0, which needs CPU 64 free on one raylet" in line
    assert cluster.run("stop", "--on", "ray/large").returncode == 0
    assert waiting.wait() == 143


def test_stop_and_the_errors_of_names(cluster: RayCluster, tmp_path: Path) -> None:
    job = RayJob(cluster, "stopped", tmp_path / "job")
    job.submit("--nodes", "1", steps=STEPS)
    job.until_step(3)
    twice = cluster.run("submit", "--on", "ray", "--name", "stopped", *job.script(STEPS))
    assert twice.returncode == 2 and "runs already" in twice.stderr, twice.stderr
    image = cluster.run("submit", "--on", "ray", "--image", "me/train:7", "train.py")
    assert image.returncode == 2 and "--image" in image.stderr, image.stderr
    late = cluster.run("wait", "--on", "ray/stopped", "--for", "step=100000", "--timeout", "1s")
    assert late.returncode == 124, late
    away = cluster.run("submit", "--on", "ray", "--ray", "127.0.0.1:1", "train.py")
    assert away.returncode == 3 and "127.0.0.1:1" in away.stderr, away.stderr
    assert cluster.run("stop", "--on", "ray/stopped").returncode == 0
    assert job.wait() == 143
    nobody = cluster.run("status", "--on", "ray/nobody")
    assert nobody.returncode == 3 and "there is no job nobody" in nobody.stderr, nobody.stderr


def train_fn(config: dict[str, Any]) -> None:
    """As Ray Train's own examples: a checkpoint in a temporary directory, and a resumption."""
    import ray.train

    begin = 0
    if checkpoint := ray.train.get_checkpoint():
        begin = int((Path(checkpoint.path) / "step").read_text()) + 1
    rank = ray.train.get_context().get_world_rank()
    for step in range(begin, 3):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "step").write_text(str(step))
            ray.train.report({"step": step, "begin": begin, "rank": rank, "rate": config["rate"]},
                             checkpoint=ray.train.Checkpoint.from_directory(directory))
        died = Path(config["place"]) / f"died{rank}"
        if step == 1 and not died.exists():
            died.touch()
            os._exit(9)


def test_a_trainer_of_ray_train_with_its_class_changed(cluster: RayCluster,
                                                      tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    result = PacelineTrainer(train_fn, nodes=1, storage=str(storage), train_loop_config={
        "rate": 0.5, "place": str(tmp_path)}).fit()
    assert result.exit_code == 0, result.error
    assert result.metrics == {"step": 2, "begin": 2, "rank": 0, "rate": 0.5}
    assert result.checkpoint and (Path(result.checkpoint) / "step").read_text() == "2"
    assert wait("train-fn")["exit_code"] == 0
    assert Store("train-fn").read("credentials/ca.key") is None
