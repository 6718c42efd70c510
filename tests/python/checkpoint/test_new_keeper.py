"""A keeper that knows nothing of the one before: what it saves is newer all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from keepers import end_keepers

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")

from paceline.torch import Checkpointer, CheckpointError

pytestmark = pytest.mark.usefixtures("own_keeper")

SCRIPT = """
import sys, torch, paceline.torch as pl
from paceline._storage import directory_id
directory_id._Directory.patience = 60.0  # a busy disk may answer late
ckpt = pl.Checkpointer(sys.argv[1], every=1)
state = {"x": torch.zeros(1)}
start = ckpt.restore(state)
for step in range(start, start + 2):
    state["x"] += 1
    ckpt.save(step % 3, state)
ckpt.close()
print(start, int(state["x"]))
"""


SLOW = SCRIPT.replace(
    "directory_id._Directory.patience = 60.0  # a busy disk may answer late",
    "directory_id._Directory.ask = lambda *_: threading.Event().wait()",
).replace("import sys,", "import sys, threading,")


@pytest.mark.parametrize("script", [SCRIPT, SLOW], ids=["told", "slow"])
def test_a_new_keeper_goes_on_above_what_an_earlier_one_has_stored(
    script: str, tmp_path: Path
) -> None:
    """Its worlds began at generation 1 again, so storage refused what it saved as older.

    If its directory is slow, a rank starts without a look at it, and the keeper looks.
    """
    env = {**os.environ, "PACELINE_TIMERS_STORAGE_WAIT": "2s"}
    seen = []
    for run in range(4):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "c")],
            env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen.append(int(done.stdout.split()[1]))
        if run > 0:
            end_keepers(Path(env["PACELINE_RUNTIME_DIR"]))
    assert seen == [2, 4, 6, 8], "each run goes on from the last save of the run before"


def test_a_keeper_that_cannot_be_started_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_BIN", str(tmp_path / "nothing"))
    with pytest.raises(CheckpointError, match="cannot be started") as caught:
        Checkpointer(tmp_path / "c")
    assert "PACELINE_BIN" in caught.value.fix


@pytest.mark.parametrize("name", ["PACELINE_RUNTIME_DIR", "XDG_RUNTIME_DIR"])
def test_a_runtime_directory_that_cannot_be_made_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("PACELINE_RUNTIME_DIR")
    monkeypatch.setenv(name, str(tmp_path / "file" / "run"))
    with pytest.raises(CheckpointError, match="cannot be used") as caught:
        Checkpointer(tmp_path / "c")
    assert ("XDG_RUNTIME_DIR" in caught.value.fix) == name.startswith("XDG")
