"""Ray's head goes away: for a while with Redis, and for good without."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_cluster import PACELINE, RayJob, eventually, processes_of
from started_ray import Redis, StartedRay

STEPS = 3000
# Ray's raylets wait for 60 s.
AWAY_S = 30


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    made = Redis(tmp_path)
    yield made
    made.close()


def start_wait(cluster: StartedRay, job: RayJob) -> subprocess.Popen[str]:
    """`paceline wait`, when it has connected: it tells of a spare for which there is no room."""
    waiting = subprocess.Popen([PACELINE, "wait", "--on", f"ray/{job.name}"],
                               stderr=subprocess.PIPE, text=True, env=cluster.environment())
    assert waiting.stderr is not None
    assert "Ray has no room for" in waiting.stderr.readline()
    return waiting


def test_a_job_goes_on_while_a_head_with_redis_is_away(redis: Redis, tmp_path: Path) -> None:
    cluster = StartedRay(raylets=3, redis=redis)
    try:
        job = RayJob(cluster, "away", tmp_path / "job")
        job.submit("--nodes", "2", "--spares", "2", steps=STEPS)
        job.until_step(10)
        waiting = start_wait(cluster, job)
        assert waiting.stderr is not None
        cluster.kill_head()
        gone, at = time.monotonic(), job.step()
        line = waiting.stderr.readline()
        assert "has not answered for" in line and "away trains on meanwhile" in line
        while time.monotonic() - gone < AWAY_S:
            time.sleep(1)
        job.until_step(at + 10)
        assert cluster.run("status", "--on", "ray/away").returncode == 3
        cluster.start_head()
        assert "answers again" in waiting.stderr.readline()
        eventually(lambda: cluster.run("status", "--on", "ray/away").returncode == 0,
                   "the job's master is found again")
        job.until_step(job.step() + 10)
        assert job.steps() == list(range(len(job.steps()))), "no step was lost or repeated"
        job.let_go()
        assert waiting.wait() == 0
    finally:
        cluster.close()


def test_a_job_ends_with_a_head_that_has_no_redis(tmp_path: Path) -> None:
    cluster = StartedRay(raylets=2)
    try:
        job = RayJob(cluster, "lost", tmp_path / "job")
        job.submit("--nodes", "2", "--spares", "1", steps=STEPS)
        job.until_step(10)
        waiting = start_wait(cluster, job)
        cluster.kill_head()
        _, said = waiting.communicate()
        assert waiting.returncode == 3, said
        assert "error[PL-E330]: the job lost is lost, because Ray's head does not come back" in said
        eventually(lambda: not processes_of(job), "no process of the job is left")
        wrote = [path.read_text() for path in Path("/tmp").glob("paceline-lost-*/output")]
        assert any("no store from which another one could go on" in text for text in wrote)
        last = job.step()
    finally:
        cluster.close()
    cluster = StartedRay(raylets=2)
    try:
        again = RayJob(cluster, "lost", tmp_path / "job")
        again.submit("--nodes", "2", steps=last + 50)
        eventually(lambda: len(again.steps()) > last + 2, "it steps again")
        # The script saves every 20 steps.
        assert last - 20 <= again.steps()[last + 1] <= last + 1, "its newest save was in storage"
        again.let_go()
        assert again.wait() == 0
    finally:
        cluster.close()
