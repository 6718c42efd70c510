"""Row 36: a network file system whose server answers nobody, not even who reads, and one whose
server is gone. A real one for the kernel: FUSE, whose server a test stops and ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from far_disk import FarDisk, needs_fuse
from job import Job, eventually
from outage import NEVER, ends_whole, goes_on_without_storage, start, stops_without_storage

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_fuse


@pytest.fixture
def job(job: Job) -> Job:
    return job.be_patient()  # worlds and restores are counted


@pytest.fixture
def far(tmp_path: Path, job: Job) -> Iterator[FarDisk]:
    made = FarDisk(tmp_path)
    yield made
    made.server.send_signal(signal.SIGCONT)
    job.end()
    made.end()


def test_row_36_a_silent_server_costs_checkpoints_and_never_a_step(job: Job, far: FarDisk) -> None:
    start(job, far.path)
    job.until_event("checkpoint_committed")
    assert list((job.run_dir / "nodes").glob("*/tier/step-*")), "it goes to the host's disk first"
    with far.silent():
        goes_on_without_storage(job)
    ends_whole(job, far.path)


def test_row_36_a_node_that_is_new_goes_on_from_memory_before_a_silent_server(
        job: Job, far: FarDisk) -> None:
    """Nobody but the master's journal knows then what is in storage. Nothing goes there before the
    kill: whoever waits for an answer that FUSE's server has in its hands cannot even be killed."""
    start(job, far.path, every=NEVER)
    job.until_stepping(2, beyond=10)
    with far.silent():
        job.until_stepping(2, beyond=job.step() + 30)
        job.kill_node("node0")
        job.until_event("world_running", 2)
        decided = job.events("restore_decided")
        assert len(decided) == 2 and "from memory" in decided[-1]["sentence"]
        job.until_stepping(2, beyond=job.step() + 20)
    ends_whole(job, far.path)


def test_row_36_a_stop_does_not_wait_for_a_silent_server(job: Job, far: FarDisk) -> None:
    start(job, far.path)
    job.until_event("checkpoint_committed")
    with far.silent():
        job.until_stepping(2, beyond=job.step() + 30)
        status = job.command("status", "--job", str(job.run_dir))
        assert status.returncode == 0, status.stderr
        stops_without_storage(job)


def test_row_36_a_server_that_is_silent_from_the_beginning_is_waited_for(
        job: Job, far: FarDisk) -> None:
    with far.silent():
        start(job, far.path)
        eventually(lambda: "does not answer; this rank waits for it" in job.stderr,
                   "somebody says for what the ranks wait", job=job)
        assert not job.events("restore_decided")
    ends_whole(job, far.path)


def test_row_36_a_server_that_is_gone_costs_checkpoints_and_never_a_step(
        job: Job, far: FarDisk) -> None:
    start(job, far.path)
    job.until_event("checkpoint_committed")
    far.server.kill()  # still mounted: whoever asks gets an error at once
    far.server.wait()
    goes_on_without_storage(job)
    far.end()
    far.serve()
    ends_whole(job, far.path)
