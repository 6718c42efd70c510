"""What a job does while the storage of its checkpoints gives nobody an answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from job import SCRIPTS, Job, eventually

NEVER = 1_000_000


def start(job: Job, storage: Path, every: int = 10) -> None:
    job.be_patient().start(["--standalone", "--nproc-per-node", "2"], [
        str(SCRIPTS / "flash.py"), "--checkpoint", str(storage / "ckpt"), "--out",
        str(job.state), "--steps", str(NEVER), "--every", str(every), "--cut"])


def reached(job: Job) -> int:
    """The step that the ranks make now, as they write it themselves."""
    return max(int(path.read_text()) for path in job.state.glob("g*-r*") if not path.suffix)


def goes_on_without_storage(job: Job) -> None:
    """It trains, a killed rank costs a restart from memory, and nothing gets to storage."""
    begun = reached(job)
    ranks = job.until_stepping(2, beyond=begun + 60)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.until_event("world_running", 2)
    assert "from memory" in job.events("restore_decided")[-1]["sentence"]
    step = job.step()
    job.until_stepping(2, beyond=step + 20)
    # The master may hear late of one that was there before.
    stored = [event["step"] for event in job.events("checkpoint_committed")]
    assert max(stored) <= begun, "nothing gets there"


def ends_whole(job: Job, storage: Path) -> None:
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    last = int((job.state / "end").read_text())
    assert job.events("checkpoint_committed")[-1]["step"] == last
    assert job.command("ckpt", "verify", str(storage / "ckpt")).returncode == 0


def stops_without_storage(job: Job) -> None:
    stopped = job.command("stop", "--stop-grace", "1s", "--job", str(job.run_dir))
    assert stopped.returncode == 0, stopped.stderr
    eventually(lambda: job.launcher is not None and job.launcher.poll() is not None,
               "the job ends", job=job)
    assert job.launcher is not None and job.launcher.returncode == 143
    assert "is not in storage" in job.stderr, job.stderr
