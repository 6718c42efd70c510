"""Row 36: a disk that answers nobody. A real one: ext4 on a loop device, frozen by the kernel, so
that whoever writes to it sleeps in the kernel and cannot even be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"),
    reason="mounting and freezing a disk need root, mkfs.ext4 and fsfreeze")

DISK_BYTES = 64 << 20
STEPS = 400


class Disk:
    """A small ext4 of its own at `path`."""

    def __init__(self, directory: Path):
        image, self.path = directory / "disk.img", directory / "disk"
        self.path.mkdir()
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        done = subprocess.run(["mount", "-o", "loop", str(image), str(self.path)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"NO LOOP DEVICE HERE: {done.stderr.strip()}")
        self.is_frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "-f", str(self.path)], check=True)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen:
            subprocess.run(["fsfreeze", "-u", str(self.path)], check=True)
        self.is_frozen = False


@pytest.fixture
def disk(tmp_path: Path, job: Job) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.thaw()
    job.end()  # or it would be written to for ever
    subprocess.run(["umount", "-l", str(made.path)], check=False)


@contextmanager
def frozen(disk: Disk) -> Iterator[None]:
    disk.freeze()
    try:
        yield
    finally:
        disk.thaw()


def start(job: Job, disk: Disk) -> None:
    job.start(["--standalone", "--nproc-per-node", "2"], [
        str(SCRIPTS / "flash.py"), "--checkpoint", str(disk.path / "ckpt"), "--out",
        str(job.state), "--steps", str(STEPS), "--every", "10", "--cut"])
    job.until_event("checkpoint_committed")


def test_row_36_a_disk_that_stands_still_costs_checkpoints_and_never_a_step(
        job: Job, disk: Disk) -> None:
    start(job, disk)
    with frozen(disk):
        step = job.step()
        ranks = job.until_stepping(2, beyond=step + 60)
        committed = len(job.events("checkpoint_committed"))
        os.kill(ranks[1]["pid"], signal.SIGKILL)
        job.until_event("world_running", 2)
        assert "from memory" in job.events("restore_decided")[-1]["sentence"]
        step = job.step()
        job.until_stepping(2, beyond=step + 20)
        assert len(job.events("checkpoint_committed")) == committed, "nothing gets there"
    assert job.wait() == 0, job.stderr
    assert job.events("checkpoint_committed")[-1]["step"] == STEPS - 1
    assert job.command("ckpt", "verify", str(disk.path / "ckpt")).returncode == 0


def test_row_36_a_stop_does_not_wait_for_a_disk_that_stands_still(job: Job, disk: Disk) -> None:
    start(job, disk)
    with frozen(disk):
        step = job.step()
        job.until_stepping(2, beyond=step + 30)
        stopped = job.command("stop", "--stop-grace", "1s", "--job", str(job.run_dir))
        assert stopped.returncode == 0, stopped.stderr
        eventually(lambda: job.launcher is not None and job.launcher.poll() is not None,
                   "the job ends", job=job)
        assert "is not in storage" in job.stderr, job.stderr
        assert "has been killed and does not end" in job.stderr, job.stderr
    assert job.launcher is not None and job.launcher.returncode == 143
