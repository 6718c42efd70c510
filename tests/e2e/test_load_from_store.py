"""`load` reads a checkpoint in an object store, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

import torch
from object_store import BUCKET, ObjectStore
from paceline.torch import Checkpointer, CheckpointError, load

BINARY = Path(sys.executable).parent / "paceline"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    one = ObjectStore()
    for name, value in one.environment().items():
        monkeypatch.setenv(name, value)
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    yield one
    one.stop()


def test_the_newest_and_a_named_one_are_loaded(store: ObjectStore, tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "here", every=1) as ckpt:
        for step in (3, 4):
            ckpt.save(step, {"x": torch.full((3,), float(step))}).wait("durable")
    for step in (3, 4):
        words = ["ckpt", "copy", str(tmp_path / f"here/step-{step}-g1"), f"s3://{BUCKET}/runs"]
        assert subprocess.run([BINARY, *words], check=False).returncode == 0
    state = {"x": torch.zeros(3)}
    loaded = load(f"s3://{BUCKET}/runs", state)
    assert loaded.step == 4 and state["x"].tolist() == [4.0] * 3
    assert loaded.folder == f"s3://{BUCKET}/runs/step-4-g1"
    assert load(f"s3://{BUCKET}/runs/step-3-g1", state).step == 3
    assert state["x"].tolist() == [3.0] * 3
    assert list((tmp_path / "room").iterdir()) == []


def test_what_is_not_there_is_said(store: ObjectStore, tmp_path: Path) -> None:
    state = {"x": torch.zeros(3)}
    with pytest.raises(CheckpointError, match="there is no checkpoint") as caught:
        load(f"s3://{BUCKET}/nothing", state)
    assert f"s3://{BUCKET}/nothing" in str(caught.value)
    store.stop()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(f"s3://{BUCKET}/nothing", state)
    store.start()
    assert list((tmp_path / "room").iterdir()) == []
