"""An object store has a marker, as a directory has: what was deleted there is gone from memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

from object_store import BUCKET, ObjectStore

LIMIT_S = 600  # each run imports torch
PREFIX = "runs/gpt/"
PLACE = f"s3://{BUCKET}/{PREFIX}"
MARKER = f"{PREFIX}.paceline-id"
TRAIN = """
import sys, torch, paceline.torch as pl
ckpt = pl.Checkpointer(sys.argv[1], every=1)
x = {"x": torch.zeros(4)}
start = ckpt.restore(x)
print("start", start, float(x["x"][0]), ckpt.restored, flush=True)
for step in range(start, start + 3):
    x["x"] += 1
    ckpt.save(step, x)
ckpt.close()
"""


class Trainings:
    """Runs on one host, one after the other, with the memory and the disk of that host."""

    def __init__(self, store: ObjectStore, runtime: Path) -> None:
        self.store = store
        self.runtime = runtime
        self.environment = os.environ | store.environment() | {
            "PACELINE_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime / "state"),
        }  # fmt: skip

    def run(self, script: str = TRAIN, **environment: str) -> str:
        done = subprocess.run([sys.executable, "-c", script, PLACE], timeout=LIMIT_S, check=False,
                              env=self.environment | environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def delete(self, *, below: str = PREFIX) -> None:
        for key in [key for key in self.store.objects() if key.startswith(below)]:
            self.store.client().delete_object(Bucket=BUCKET, Key=key)

    def stored(self) -> set[str]:
        names = {key.removeprefix(PREFIX).split("/")[0] for key in self.store.objects()}
        return {name for name in names if name.startswith("step-")}


@pytest.fixture
def trainings() -> Iterator[Trainings]:
    # Each test has its own: keepers of the test before live on for a minute.
    runtime = Path(tempfile.mkdtemp(prefix="pl-prefix-", dir="/tmp"))
    server = ObjectStore()
    yield Trainings(server, runtime)
    server.stop()
    shutil.rmtree(runtime, ignore_errors=True)


def test_a_prefix_that_was_deleted_is_gone(trainings: Trainings) -> None:
    assert "start 0 0.0" in trainings.run()
    assert MARKER in trainings.store.objects()
    said = trainings.run()
    assert "start 3 3.0" in said
    assert "memory" in said, "nothing was deleted, so memory is what the next run begins with"
    trainings.delete()
    assert "start 0 0.0" in trainings.run()
    assert MARKER in trainings.store.objects(), "a new marker"
    assert "start 3 3.0" in trainings.run()


def test_a_prefix_without_a_marker_gets_one_and_keeps_its_checkpoints(
    trainings: Trainings
) -> None:
    trainings.run()
    trainings.delete(below=MARKER)
    said = trainings.run()
    assert "start 3 3.0" in said
    assert MARKER in trainings.store.objects()


def test_a_new_run_saves_above_the_generations_that_are_stored(trainings: Trainings) -> None:
    """Another host's keeper knows of them by the store alone."""
    trainings.run()
    trainings.run()
    newest = max(int(name.split("-g")[1]) for name in trainings.stored())
    trainings.environment["PACELINE_RUNTIME_DIR"] = str(trainings.runtime / "other")
    trainings.environment["XDG_STATE_HOME"] = str(trainings.runtime / "other-state")
    assert "start 6 6.0" in trainings.run()
    assert max(int(name.split("-g")[1]) for name in trainings.stored()) > newest


def test_a_store_that_is_away_was_not_deleted(trainings: Trainings) -> None:
    trainings.run()
    trainings.store.stop()
    begins = TRAIN.split("for step", maxsplit=1)[0] + "import os; os._exit(0)"
    try:
        said = trainings.run(begins, AWS_MAX_ATTEMPTS="1")
    finally:
        trainings.store.start()
    assert f"{PLACE.rstrip('/')} cannot be read" in said
    assert "training goes on from memory" in said
    assert "start 3 3.0" in said


def test_a_run_that_began_while_the_store_was_away_is_not_lost(trainings: Trainings) -> None:
    """It knows no marker. The next run has one, and goes on from the memory of the first."""
    trainings.store.stop()
    saves = TRAIN.replace("ckpt.close()", "import os; os._exit(0)")
    saves = saves.replace('start = ckpt.restore(x)', 'start = 0')
    try:
        trainings.run(saves, AWS_MAX_ATTEMPTS="1")
    finally:
        trainings.store.start()
    assert "start 3 3.0" in trainings.run()
    assert "start 6 6.0" in trainings.run()
    trainings.delete()
    assert "start 0 0.0" in trainings.run()
