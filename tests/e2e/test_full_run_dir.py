"""The disk of the run directory is full, because ranks print much. They train on, a failure is
known and carried out, and the console says what waits. The disk is a small tmpfs of the test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from job import DEADLINE_S, SCRIPTS, Job, eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

ONE = ["--standalone", "--nproc-per-node", "1"]


@pytest.fixture
def full(job: Job) -> Iterator[Path]:
    """A disk for the run directory, with room for a hundred lines of `printing.py`."""
    place = job.directory / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], check=True)
    job.run_dir = place / "run"
    yield place
    job.end()
    subprocess.run(["umount", "-l", str(place)], check=False)


def is_full(place: Path) -> bool:
    found = os.statvfs(place)
    return found.f_bavail == 0


def troubles(job: Job) -> list[str] | None:
    status = job.status()
    return None if status is None else status["troubles"]


def start(job: Job, place: Path, *words: str) -> None:
    job.be_patient().start(ONE, [str(SCRIPTS / "printing.py"), *words])
    eventually(lambda: is_full(place) or None, "the disk is full", job=job)


def test_a_rank_prints_on_and_its_lost_output_is_noted(job: Job, full: Path) -> None:
    start(job, full, "never")
    eventually(lambda: f"{job.run_dir}, is full" in job.stderr or None, "the console says so",
               job=job)
    for word in ("status", "why"):
        eventually(lambda word=word: "is full. The ranks go on" in job.command(
            word, "--job", str(job.run_dir)).stdout, f"{word} says so", job=job)
    eventually(lambda: "is full" in " ".join(troubles(job) or []), "status has it", job=job)
    reached = job.step()
    eventually(lambda: job.step() > reached + 300 or None, "the rank trains on", job=job)
    subprocess.run(["mount", "-o", "remount,size=1g", str(full)], check=True)
    errors = job.run_dir / "logs" / "node0" / "g1" / "rank0.err"
    eventually(lambda: "the disk was full for about" in errors.read_text() or None,
               "C++ output's loss is noted", job=job)
    output = job.run_dir / "logs" / "node0" / "g1" / "rank0.out"
    eventually(lambda: "bytes were dropped: the disk was full" in output.read_text() or None,
               "Python output's loss is counted", job=job)
    eventually(lambda: "has room again" in job.stderr or None, "the console says it", job=job)
    eventually(lambda: troubles(job) == [], "status has it no more", job=job)
    assert not job.events("rank_failed")


def test_a_job_that_ends_on_a_full_disk_says_that_output_is_lost(job: Job, full: Path) -> None:
    start(job, full, "end", str(job.state / "go"))
    # The launcher has found the page of the ranks by then.
    eventually(lambda: f"{job.run_dir}, is full" in job.stderr or None, "the console says so",
               job=job)
    reached = job.step()
    eventually(lambda: job.step() > reached + 30 or None, "lines are lost", job=job)
    job.let_go()
    assert job.wait() == 0, job.stderr
    lost = re.search(r"Done\. But at least (\d+) lines of the ranks' output were dropped, because",
                     job.stderr)
    assert lost is not None and int(lost[1]) >= 10, job.stderr
    assert "is still full at the end of the job" in job.stderr
    for word in ("status", "why"):
        assert "If it was full at the job's end" in job.command(
            word, "--job", str(job.run_dir)).stdout


def test_the_first_failure_has_room(job: Job, full: Path) -> None:
    """Its error record has a traceback, and the next world is formed on the full disk."""
    start(job, full, "400")
    failed = job.until_event("rank_failed")[0]
    assert "ValueError: the loss is NaN" in str(failed), failed
    job.until_event("world_formed", count=2)
    why = job.command("why", "--job", str(job.run_dir)).stdout
    assert "printing.py:" in why, why


def test_a_dead_master_and_then_a_dead_rank_are_healed(job: Job, full: Path) -> None:
    """The kept room lasts for both, although the rank prints into each block that gets free."""
    start(job, full, "never")
    former = job.card["master"]["pid"]
    os.kill(former, signal.SIGKILL)
    eventually(lambda: job.card["master"]["pid"] != former or None, "there is another master",
               job=job)
    job.until_event("master_took_over", count=2)
    os.kill(job.until_stepping(1)[0]["pid"], signal.SIGKILL)
    job.until_event("world_formed", count=2)
    job.until_stepping(1)
    eventually(lambda: is_full(full) or None, "the disk is still full", job=job)


def test_the_console_says_that_decisions_wait_and_for_what(job: Job, full: Path) -> None:
    """Each world fails, so at last the room that was kept for the first failures is used up."""
    start(job, full, "often")
    # The logs of old worlds are removed, beyond 20 of them, and the journal would get their room.
    for log in job.run_dir.glob("logs/node0/g*/rank0.out"):
        (full / log.parent.name).hardlink_to(log)
    eventually(lambda: "decisions wait until the journal is written" in job.stderr or None,
               "the console says so", 3 * DEADLINE_S, job)
    assert "disk is full" in job.stderr
