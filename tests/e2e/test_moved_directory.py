"""A directory of checkpoints that is moved away under a job belongs to whoever saves there next."""

from __future__ import annotations

from pathlib import Path

import pytest
from job import Job, eventually

pytest.importorskip("torch", reason="the script saves with torch")
EXIT_NOT_STORED = 11
SAVING = """
import os, sys, time
import torch
import paceline.torch as pl
state = {"x": torch.zeros(100), "who": ""}
with pl.Checkpointer("ckpt", every=2, keep=2) as checkpointer:
    step = checkpointer.restore(state)
    while step < int(sys.argv[2]) or not os.path.exists(sys.argv[3]):
        state["who"] = sys.argv[1]
        checkpointer.save(step, state)
        step += 1
        time.sleep(0.05)
"""


def start(job: Job, who: str, steps: int, until: Path) -> None:
    script = job.directory / "saving.py"
    script.write_text(SAVING)
    job.start(["--standalone", "--nproc-per-node", "1"],
              [str(script), who, str(steps), str(until)])


def test_its_checkpoints_outlive_the_first_job(tmp_path: Path) -> None:
    is_told = tmp_path / "told"
    first, second = Job(tmp_path, "first"), Job(tmp_path, "second")
    start(first, "first", 10, is_told)
    eventually(lambda: first.events("checkpoint_committed"), "a checkpoint", job=first)
    (tmp_path / "ckpt").rename(tmp_path / "moved")
    start(second, "second", 12, tmp_path)
    assert second.wait() == 0, second.stderr
    kept = sorted(path.name for path in (tmp_path / "ckpt").glob("step-*"))
    assert len(kept) == 2
    # The second has given its claim back; the first one writes nothing there all the same.
    before = first.step()
    eventually(lambda: first.step() > before + 40, "forty steps more", job=first)
    is_told.touch()
    assert first.wait() == EXIT_NOT_STORED, first.stderr
    assert sorted(path.name for path in (tmp_path / "ckpt").glob("step-*")) == kept
    assert "the directory is another job's now" in first.stderr
