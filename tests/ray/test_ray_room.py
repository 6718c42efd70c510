"""Jobs whose Ray loses raylets, gets new ones, or has some without paceline."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from paceline.integrations.ray.calls import NAMESPACE, ask
from ray_cluster import PACELINE, RayCluster, RayJob, eventually

STEPS = 3000
# The import hook of a Python in which paceline is not installed.
WITHOUT_PACELINE = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "paceline":
            raise ModuleNotFoundError("No module named 'paceline'", name="paceline")


sys.meta_path.insert(0, Missing())
"""


def cluster_of(raylets: int) -> Iterator[RayCluster]:
    made = RayCluster(raylets)
    ray.init(address=made.address, namespace=NAMESPACE, log_to_driver=False)
    yield made
    ray.shutdown()
    made.close()


@pytest.fixture
def two() -> Iterator[RayCluster]:
    yield from cluster_of(2)


@pytest.fixture
def one() -> Iterator[RayCluster]:
    yield from cluster_of(1)


def start_wait(cluster: RayCluster, job: RayJob) -> subprocess.Popen[str]:
    return subprocess.Popen([PACELINE, "wait", "--on", f"ray/{job.name}"], stderr=subprocess.PIPE,
                            text=True, env=cluster.environment())


def until_said(waiting: subprocess.Popen[str], words: str) -> str:
    """The line with these words, on the standard error of `paceline wait`."""
    assert waiting.stderr is not None
    seen = ""
    while line := waiting.stderr.readline():
        if words in line:
            return line
        seen += line
    raise AssertionError(f"{words!r} was not said, but: {seen}")


def kill_a_seat(cluster: RayCluster, job: RayJob) -> str:
    """Kill the raylet of a node on which the adapter is not, and return the node's name."""
    spared = ask(job.adapter(), "ray_node")
    lost, place = next((name, place) for name, place in job.places().items() if place != spared)
    cluster.kill(place)
    return lost


def test_a_job_shrinks_without_a_spare_and_grows_again(two: RayCluster, tmp_path: Path) -> None:
    job = RayJob(two, "shrinks", tmp_path / "job")
    job.submit("--nodes", "1:2", steps=STEPS)
    eventually(lambda: len(job.seated()) == 2, "two nodes train")
    job.until_step(10)
    lost = kill_a_seat(two, job)
    eventually(lambda: job.seated() and lost not in job.seated(), "one node trains")
    job.until_step(job.step() + 10)
    assert len(job.seated()) == 1
    two.add()
    eventually(lambda: len(job.seated()) == 2, "two nodes train again")
    job.until_step(job.step() + 10)
    job.let_go()
    assert job.wait() == 0


def test_a_job_at_its_minimum_says_what_it_waits_for(two: RayCluster, tmp_path: Path) -> None:
    job = RayJob(two, "minimum", tmp_path / "job")
    job.submit("--nodes", "2", steps=STEPS)
    eventually(lambda: len(job.seated()) == 2, "two nodes train")
    job.until_step(10)
    waiting = start_wait(two, job)
    lost = kill_a_seat(two, job)
    line = until_said(waiting, "Ray has no room for")
    assert f"no room for {lost}, which needs CPU 1 free on one raylet" in line

    def has_reason() -> bool:
        """The adapter says it at once, and the master when it has heard of it."""
        status = two.run("status", "--on", "ray/minimum").stdout
        return "Ray has had no room for" in status and "needs CPU 1 free on one raylet" in status

    eventually(has_reason, "status says it, too")
    at = job.step()
    two.add()
    until_said(waiting, "has what it waited for")
    job.until_step(at + 10)
    job.let_go()
    assert waiting.wait() == 0


def test_a_raylet_without_paceline_is_named_and_avoided(one: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PACELINE)
    unfit = one.add(PYTHONPATH=str(tmp_path))
    job = RayJob(one, "unfit", tmp_path / "job")
    job.submit("--nodes", "2", steps=STEPS)
    waiting = start_wait(one, job)
    line = until_said(waiting, "warning[PL-E331]")
    assert "Ray cannot start a node of the job there" in line
    assert unfit.node_id[:12] in until_said(waiting, "  where  ")
    assert "No module named 'paceline'" in until_said(waiting, "  why    ")
    assert "install paceline" in until_said(waiting, "  fix    ")
    one.add()
    job.until_step(10)
    assert unfit.node_id not in job.places().values()
    job.let_go()
    assert waiting.wait() == 0


def test_a_submission_where_no_raylet_has_paceline_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PACELINE)
    cluster = RayCluster(raylets=0, PYTHONPATH=str(tmp_path))
    try:
        job = RayJob(cluster, "refused", tmp_path / "job")
        refused = cluster.run("submit", "--on", "ray", "--name", "refused", *job.script(STEPS))
        assert refused.returncode == 3 and "error[PL-E331]" in refused.stderr, refused.stderr
        assert "No module named 'paceline'" in refused.stderr
    finally:
        cluster.close()
