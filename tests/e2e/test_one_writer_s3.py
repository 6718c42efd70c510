"""An object store has one writer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

from object_store import BUCKET, ObjectStore

LIMIT_S = 600  # each run imports torch
PLACE = f"s3://{BUCKET}/runs/one"
TRAIN = """
import sys, torch, paceline.torch as pl
try:
    ckpt = pl.Checkpointer(sys.argv[1], every=1)
except pl.CheckpointError as error:
    print("refused", error)
    sys.exit(3)
x = {"x": torch.zeros(4)}
start = ckpt.restore(x)
print("start", start, flush=True)
x["x"] += 1
ckpt.save(start, x)
ckpt.close()
"""


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture
def runtime() -> Iterator[Path]:
    """pytest's own folders are too long for a socket's path."""
    folder = Path(tempfile.mkdtemp(prefix="pl-s3-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def train(store: ObjectStore, runtime: Path) -> tuple[int, str]:
    environment = os.environ | store.environment() | {
        "PACELINE_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime / "state")
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", TRAIN, PLACE], env=environment, timeout=LIMIT_S,
                          capture_output=True, text=True, check=False)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_one_writer(
    store: ObjectStore, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    key = "runs/one/.paceline-claim"

    assert "start 0" in train(store, runtime)[1]
    assert "start 1" in train(store, runtime)[1]
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="runs/one/")["Contents"]
    assert key not in [one["Key"] for one in listed], "given back"

    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    own = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    claim = {"schema": "paceline.claim/1", "job_id": "other", "host": "here", "boot_id": boot,
             "pid_space": os.stat("/proc/self/ns/pid").st_ino, "pid": os.getpid(),
             "start_ticks": int(own[19]), "since": "2026-11-25T01:00:00Z", "beat": 9}  # fmt: skip
    client.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(claim).encode())
    code, said = train(store, runtime)
    assert code == 3, said
    assert "another job saves to that directory" in said
    client.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(claim | {"pid": 1 << 22}).encode())
    code, said = train(store, runtime)
    assert code == 0, said
    assert "which has ended" in said
    assert "start 2" in said
