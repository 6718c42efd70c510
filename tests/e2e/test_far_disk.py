"""Row 36: a network file system whose server answers nobody, not even who reads, and one whose
server is gone. A real one for the kernel: FUSE, whose server a test stops and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounting needs root and FUSE")

STEPS = 400


class FarDisk:
    """What lies in `folder`, seen through the network at `path`."""

    def __init__(self, directory: Path):
        self.folder, self.path = directory / "server", directory / "far"
        self.folder.mkdir()
        self.path.mkdir()
        self.serve()

    def serve(self) -> None:
        words = [sys.executable, str(SCRIPTS / "far_disk.py"), str(self.folder), str(self.path)]
        self.server = subprocess.Popen(words)
        eventually(lambda: os.path.ismount(self.path) or None, "it is mounted")

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.server.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.server.kill()
        self.server.wait()
        subprocess.run(["umount", "-l", str(self.path)], check=False)


@pytest.fixture
def far(tmp_path: Path, job: Job) -> Iterator[FarDisk]:
    made = FarDisk(tmp_path)
    yield made
    made.server.send_signal(signal.SIGCONT)
    job.end()
    made.end()


def start(job: Job, far: FarDisk, every: int = 10) -> None:
    job.start(["--standalone", "--nproc-per-node", "2"], [
        str(SCRIPTS / "flash.py"), "--checkpoint", str(far.path / "ckpt"), "--out",
        str(job.state), "--steps", str(STEPS), "--every", str(every), "--cut"])


def test_row_36_a_silent_server_costs_checkpoints_and_never_a_step(job: Job, far: FarDisk) -> None:
    start(job, far)
    job.until_event("checkpoint_committed")
    assert list((job.run_dir / "nodes").glob("*/tier/step-*")), "it goes to the host's disk first"
    with far.silent():
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
    assert job.command("ckpt", "verify", str(far.path / "ckpt")).returncode == 0


def test_row_36_a_node_that_is_new_goes_on_from_memory_before_a_silent_server(
        job: Job, far: FarDisk) -> None:
    """Nobody but the master's journal knows then what is in storage. Nothing goes there before the
    kill: whoever waits for an answer that FUSE's server has in its hands cannot even be killed."""
    start(job, far, every=STEPS - 50)
    job.until_stepping(2, beyond=10)
    with far.silent():
        ranks = job.until_stepping(2, beyond=job.step() + 30)
        for pid in (job.agent_pid("node0"), *(rank["pid"] for rank in ranks.values())):
            os.kill(pid, signal.SIGKILL)
        job.until_event("world_running", 2)
        decided = job.events("restore_decided")
        assert len(decided) == 2 and "from memory" in decided[-1]["sentence"]
        job.until_stepping(2, beyond=job.step() + 20)
    assert job.wait() == 0, job.stderr
    assert job.command("ckpt", "verify", str(far.path / "ckpt")).returncode == 0


def test_row_36_a_stop_does_not_wait_for_a_silent_server(job: Job, far: FarDisk) -> None:
    start(job, far)
    job.until_event("checkpoint_committed")
    with far.silent():
        job.until_stepping(2, beyond=job.step() + 30)
        status = job.command("status", "--job", str(job.run_dir))
        assert status.returncode == 0, status.stderr
        stopped = job.command("stop", "--stop-grace", "1s", "--job", str(job.run_dir))
        assert stopped.returncode == 0, stopped.stderr
        eventually(lambda: job.launcher is not None and job.launcher.poll() is not None,
                   "the job ends", job=job)
    assert job.launcher is not None and job.launcher.returncode == 143
    assert "is not in storage" in job.stderr, job.stderr


def test_row_36_a_server_that_is_silent_from_the_beginning_is_waited_for(
        job: Job, far: FarDisk) -> None:
    with far.silent():
        start(job, far)
        eventually(lambda: "does not answer; unless memory is known to hold" in job.stderr,
                   "somebody says for what the ranks wait", job=job)
        assert not job.events("restore_decided")
    assert job.wait() == 0, job.stderr
    assert job.command("ckpt", "verify", str(far.path / "ckpt")).returncode == 0


def test_row_36_a_server_that_is_gone_costs_checkpoints_and_never_a_step(
        job: Job, far: FarDisk) -> None:
    start(job, far)
    job.until_event("checkpoint_committed")
    far.server.kill()  # still mounted: whoever asks gets an error at once
    far.server.wait()
    step = job.step()
    ranks = job.until_stepping(2, beyond=step + 60)
    committed = len(job.events("checkpoint_committed"))
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.until_event("world_running", 2)
    assert "from memory" in job.events("restore_decided")[-1]["sentence"]
    job.until_stepping(2, beyond=job.step() + 20)
    assert len(job.events("checkpoint_committed")) == committed, "nothing gets there"
    far.end()
    far.serve()
    assert job.wait() == 0, job.stderr
    assert job.events("checkpoint_committed")[-1]["step"] == STEPS - 1
    assert job.command("ckpt", "verify", str(far.path / "ckpt")).returncode == 0
