"""Row 36: a disk that answers nobody. A real one: ext4 on a loop device, frozen by the kernel, so
that whoever writes to it sleeps in the kernel and cannot even be killed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job import Job, eventually
from outage import ends_whole, goes_on_without_storage, start, stops_without_storage

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"),
    reason="mounting and freezing a disk need root, mkfs.ext4 and fsfreeze")

DISK_BYTES = 64 << 20


class Disk:
    """A small ext4 of its own at `path`."""

    def __init__(self, directory: Path):
        self._image, self.path = directory / "disk.img", directory / "disk"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        self.mount()
        self.is_frozen = False

    def mount(self) -> None:
        done = subprocess.run(["mount", "-o", "loop", str(self._image), str(self.path)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"NO LOOP DEVICE HERE: {done.stderr.strip()}")

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=False)

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
    made.unmount()


@contextmanager
def frozen(disk: Disk) -> Iterator[None]:
    disk.freeze()
    try:
        yield
    finally:
        disk.thaw()


def test_row_36_a_disk_that_stands_still_costs_checkpoints_and_never_a_step(
        job: Job, disk: Disk) -> None:
    start(job, disk.path)
    job.until_event("checkpoint_committed")
    with frozen(disk):
        goes_on_without_storage(job)
    ends_whole(job, disk.path)


def test_row_36_a_stop_does_not_wait_for_a_disk_that_stands_still(job: Job, disk: Disk) -> None:
    start(job, disk.path)
    job.until_event("checkpoint_committed")
    with frozen(disk):
        job.until_stepping(2, beyond=job.step() + 30)
        stops_without_storage(job)
        assert "has been killed and does not end" in job.stderr, job.stderr


def test_row_36_what_is_left_of_an_unmounted_disk_is_not_filled(job: Job, disk: Disk) -> None:
    """The directory is still there, and bare: on the disk below it."""
    start(job, disk.path)
    job.until_event("checkpoint_committed")
    disk.unmount()
    try:
        goes_on_without_storage(job)
        log = job.run_dir / "logs/node0/agent.log"
        eventually(lambda: "is it not mounted?" in log.read_text(), "its agent says why", job=job)
        assert not list(disk.path.rglob("step-*")), "nothing is written there"
    finally:
        disk.mount()
    ends_whole(job, disk.path)
