"""Row 36: a disk that answers nobody. A real one: ext4 on a loop device, frozen by the kernel, so
that whoever writes to it sleeps in the kernel and cannot even be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from frozen_disk import Disk, frozen, needs_disk
from job import Job
from outage import ends_whole, goes_on_without_storage, start, stops_without_storage

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_disk


@pytest.fixture
def disk(tmp_path: Path, job: Job) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.thaw()
    job.end()  # or it would be written to for ever
    made.unmount()


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
        assert not list(disk.path.rglob("step-*")), "nothing is written there"
        assert "is it not mounted?" in (job.run_dir / "logs/node0/agent.log").read_text()
    finally:
        disk.mount()
    ends_whole(job, disk.path)
