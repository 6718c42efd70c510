"""Exit code 0 means that the last saved step is in storage. Else the job ends with 11, tells why,
keeps its memory, and the command that it names brings the step there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

ONE = ["--standalone", "--nproc-per-node", "2"]


@pytest.fixture
def small(job: Job) -> Iterator[Path]:
    """A disk with no room for two checkpoints of `flash.py`."""
    place = job.directory / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(place)], check=True)
    yield place
    job.end()
    subprocess.run(["umount", "-l", str(place)], check=False)


def enlarge(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m,rw", str(place)], check=True)


def start(job: Job, place: Path, wait: str, *words: str) -> None:
    """A job that trains until storage has refused a step and `enough` says so."""
    job.be_patient().env |= {"PACELINE_TIMERS_STORAGE_WAIT": wait}
    job.start(ONE, [str(SCRIPTS / "flash.py"), "--checkpoint", str(place / "ckpt"), "--out",
                    str(job.state), "--steps", "1000000", "--every", "5", *words])


def enough(job: Job) -> int:
    """Ends the job when storage has refused a step. Returns its last step."""
    job.until_event("checkpoint_not_stored")
    (job.state / "enough").touch()
    end = job.state / "end"
    eventually(end.exists, "the ranks know the last step", job=job)
    return int(end.read_text())


def refusals(job: Job) -> list[str]:
    return [line for line in job.stderr.splitlines() if "storage refuses step" in line]


def resume(job: Job) -> subprocess.CompletedProcess[str]:
    """The command that the job named, as a user would paste it."""
    words = next(line for line in job.stderr.splitlines() if "run --resume" in line)
    command = shlex.split(words[words.index("paceline run --resume"):].split("   ")[0])
    return job.command(*command[1:])


def test_a_full_disk_ends_the_job_with_11_and_the_named_command_mends_it(
        job: Job, small: Path) -> None:
    start(job, small, "2s")
    last = enough(job)
    assert job.wait() == 11, job.stderr
    assert len(refusals(job)) == 1, f"told at once, and once:\n{job.stderr}"
    assert "No space left" in refusals(job)[0]
    assert "PL-E066" in job.stderr and f"step, {last}, is not in storage" in job.stderr
    checkpoints = (job.status() or {})["checkpoints"]
    assert checkpoints["memory_step"] == last
    assert "No space left" in checkpoints["problem"]
    worlds = job.events("world_formed")
    assert len(worlds) == 1, "a close that fails is not cured by restarting its rank"
    stored = [event["step"] for event in job.events("checkpoint_committed")]
    assert last not in stored, "an early one may have found room"
    enlarge(small)
    resumed = resume(job)
    assert resumed.returncode == 0, resumed.stderr
    assert len(job.events("world_formed")) == 1, "no rank is started for it"
    assert job.events("checkpoint_committed")[-1]["step"] == last
    assert job.command("ckpt", "verify", str(small / "ckpt")).returncode == 0


def test_room_that_is_made_while_the_end_waits_is_enough(job: Job, small: Path) -> None:
    start(job, small, "600s")
    last = enough(job)
    eventually(lambda: job.step() >= last or None, "the last step is made", job=job)
    enlarge(small)
    assert job.wait() == 0, job.stderr
    assert "storage accepts writes again" in job.stderr
    assert job.events("checkpoint_committed")[-1]["step"] == last
    assert job.command("ckpt", "verify", str(small / "ckpt")).returncode == 0


def test_a_directory_that_may_not_be_written_is_told_as_one(job: Job, small: Path) -> None:
    enlarge(small)
    (small / "ckpt").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    start(job, small, "1s")
    last = enough(job)
    assert job.wait() == 11, job.stderr
    assert "Read-only file system" in refusals(job)[0]
    enlarge(small)
    assert resume(job).returncode == 0
    assert job.events("checkpoint_committed")[-1]["step"] == last


def script_that_does_not_close(job: Job) -> Path:
    script = job.directory / "open.py"
    script.write_text(
        "import sys, torch, paceline.torch as pl\n"
        "c = pl.Checkpointer(sys.argv[1], every=1)\n"
        "s = {'x': torch.zeros(200_000)}\n"
        "for i in range(c.restore(s), 5):\n"
        "    s['x'] += 1\n"
        "    c.save(i, s)\n")
    return script


def test_a_script_that_does_not_close_is_told_the_same(job: Job, small: Path) -> None:
    script = script_that_does_not_close(job)
    job.be_patient().env |= {"PACELINE_TIMERS_STORAGE_WAIT": "1s"}
    job.start(["--standalone", "--nproc-per-node", "1"], [str(script), str(small / "ckpt")])
    assert job.wait() == 11, job.stderr
    assert not job.events("rank_failed")
    enlarge(small)
    assert resume(job).returncode == 0
    assert job.events("checkpoint_committed")[-1]["step"] == 4


def test_a_master_that_dies_at_the_end_leaves_the_last_step_to_the_next(
        job: Job, small: Path) -> None:
    script = script_that_does_not_close(job)
    job.be_patient().env |= {"PACELINE_TIMERS_STORAGE_WAIT": "600s"}
    job.start(["--standalone", "--nproc-per-node", "1"], [str(script), str(small / "ckpt")])
    job.until_event("stop_decided")
    job.until_event("checkpoint_not_stored")
    os.kill(job.card["master"]["pid"], signal.SIGKILL)
    job.until_event("master_took_over", 2)
    enlarge(small)
    assert job.wait() == 0, job.stderr
    assert job.events("checkpoint_committed")[-1]["step"] == 4
    assert not job.events("node_lost"), "its agent waited for the next master"


def test_a_rank_that_prints_outlives_a_full_disk_of_logs(job: Job, small: Path) -> None:
    script = job.directory / "prints.py"
    script.write_text(
        "import sys\n"
        "for _ in range(10_000):\n"
        "    print('x' * 100)\n"
        "print('y' * 100, file=sys.stderr)\n"
        "open('done', 'w').close()\n")
    job.be_patient().start(
        ["--standalone", "--nproc-per-node", "1", "--log-dir", str(small / "logs")], [str(script)])
    assert job.wait() == 0, job.stderr
    assert (job.directory / "done").exists()
    assert not job.events("rank_failed")
