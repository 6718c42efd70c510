"""Cases in which no raylet is lost, on one Ray for all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from paceline.integrations.ray.calls import NAMESPACE, ask, kill
from ray_cluster import DEADLINE_S, PACELINE, SCRIPTS, RayCluster, RayJob, eventually

STEPS = 3000
OWN = Path(__file__).parent / "scripts"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    made = RayCluster(raylets=3)
    ray.init(address=made.address, namespace=NAMESPACE, log_to_driver=False)
    yield made
    ray.shutdown()
    made.close()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def actor_pid(job: str, part: str) -> int:
    """The process of the actor whose directory says that it is this part of the job."""
    for mark in Path("/tmp").glob(f"paceline-{job}-*/ray.json"):
        told = json.loads(mark.read_text())
        if told["job"] == job and told["part"] == part and lives(told["actor"]["pid"]):
            return told["actor"]["pid"]
    raise AssertionError(f"{part} of {job} has no living actor")


def test_nothing_is_left_of_a_killed_actor(cluster: RayCluster, tmp_path: Path) -> None:
    submitted = cluster.run("submit", "--on", "ray", "--name", "forks", "--nodes", "1",
                            str(OWN / "forks.py"), str(tmp_path))
    assert submitted.returncode == 0, submitted.stderr
    eventually(lambda: len(list(tmp_path.glob("*.pid"))) == 3, "rank, child and grandchild run")
    pids = [int(told.read_text()) for told in tmp_path.glob("*.pid")]
    os.kill(actor_pid("forks", "node0 0"), signal.SIGKILL)
    killed = time.monotonic()
    eventually(lambda: not any(lives(pid) for pid in pids), "none of them is left")
    print(f"\nnone was left after {time.monotonic() - killed:.1f} s")
    assert cluster.run("stop", "--on", "ray/forks").returncode == 0
    cluster.run("wait", "--on", "ray/forks")


def test_two_jobs_are_independent(cluster: RayCluster, tmp_path: Path) -> None:
    one = RayJob(cluster, "one", tmp_path / "one")
    two = RayJob(cluster, "two", tmp_path / "two")
    for job in (one, two):
        job.submit("--nodes", "1", steps=STEPS)
    for job in (one, two):
        job.until_step(5)
    kill(ask(one.adapter(), "nodes")[0])
    eventually(lambda: one.status()["summary"]["last"], "the master of one tells of the loss")
    one.until_step(one.step() + 5)
    assert cluster.run("stop", "--on", "ray/one").returncode == 0
    assert one.wait() == 143
    two.until_step(two.step() + 5)
    assert not two.status()["summary"]["last"], "nothing was lost of two"
    two.let_go()
    assert two.wait() == 0
    assert two.steps() == list(range(STEPS))


def test_a_killed_master_costs_no_step(cluster: RayCluster, tmp_path: Path) -> None:
    """Nor does it end an attached terminal."""
    job = RayJob(cluster, "term", tmp_path / "job")
    job.submit("--nodes", "2", steps=STEPS)
    job.until_step(10)
    attached = subprocess.Popen([PACELINE, "attach", "--on", "ray/term"], stderr=subprocess.PIPE,
                                text=True, env=cluster.environment())
    assert attached.stderr is not None
    assert "Attached to" in attached.stderr.readline()
    kill(ask(job.adapter(), "master"))
    eventually(lambda: job.status()["term"] == 2 and job.status()["summary"]["phase"] == "running",
               "a master of the second term sees the world train")
    job.until_step(job.step() + 10)
    seen = ""
    while "Attached to" not in (line := attached.stderr.readline()):
        seen += line
        assert line, f"attach goes on with the next master, but it said: {seen}"
    job.let_go()
    assert attached.wait(DEADLINE_S) == 0
    assert job.wait() == 0
    assert job.steps() == list(range(STEPS)), "no step was lost or repeated"


def test_a_job_survives_its_driver_and_attach_finds_it(cluster: RayCluster,
                                                       tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, str(OWN / "driver.py"), str(tmp_path)],
                              env=cluster.environment())
    eventually((tmp_path / "step").exists, "the function trains")
    driver.kill()
    driver.wait()
    attached = subprocess.Popen([PACELINE, "attach", "--on", "ray/driver"],
                                stderr=subprocess.PIPE, text=True, env=cluster.environment())
    assert attached.stderr is not None
    # Lines that come while the job runs: it does not end before DIR/end is there.
    first, later = attached.stderr.readline(), attached.stderr.readline()
    assert "Attached to" in first and later, (first, later)
    seen = int((tmp_path / "step").read_text())
    eventually(lambda: int((tmp_path / "step").read_text() or 0) > seen, "it trains on")
    attached.send_signal(signal.SIGINT)
    _, left = attached.communicate(timeout=DEADLINE_S)
    assert attached.returncode == 0 and "which goes on" in left, left
    (tmp_path / "end").touch()
    assert cluster.run("wait", "--on", "ray/driver").returncode == 0


def test_a_working_directory_is_brought_to_the_nodes(cluster: RayCluster, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(SCRIPTS / "train.py", home / "part.py")
    (home / "train.py").write_text("import part\n\npart.main()\n")
    job = RayJob(cluster, "brought", tmp_path / "job")
    job.directory.mkdir()
    printed = cluster.run("submit", "--on", "ray", "--print", "--nodes", "1", "train.py")
    assert json.loads(printed.stdout)["target"] == "train.py", printed.stderr
    submitted = cluster.run("submit", "--on", "ray", "--name", "brought", "--working-dir",
                            str(home), "train.py", *job.script(20)[1:])
    assert submitted.returncode == 0, submitted.stderr
    home.rename(tmp_path / "moved")
    assert job.wait() == 0
    assert job.steps() == list(range(20))
