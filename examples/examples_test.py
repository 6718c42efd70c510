"""Each example runs as a plain script, one rank and no launcher, and goes on where it stopped."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent


def run(script: str, *args: object, expect: int = 0, **env: str) -> str:
    """Run an example as rank 0 of 1; give what it wrote."""
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    # The store of torch.distributed takes any port: no other rank has to know it.
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *map(str, args)],
        env={**os.environ, **rank, **store, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout + done.stderr


def weights(output: str) -> str:
    found = re.search(r"weights sha256 ([0-9a-f]{64})", output)
    assert found, output
    return found.group(1)


def test_hello_keeps_its_count_over_a_failure(tmp_path: Path):
    args = ("hello.py", "--step-seconds", 0, "--count-file", tmp_path / "count", "--fail-at", 3)
    assert "asked to fail at step 3" in run(*args, expect=1)
    assert (tmp_path / "count.0").read_text() == "3"
    again = run(*args, TORCHELASTIC_RESTART_COUNT="1")
    assert "rank 0 is done after 10 steps" in again


@pytest.mark.parametrize("script", ["train_bytes.py", "train_fsdp2.py"])
def test_a_restart_ends_with_the_same_bits(script: str, tmp_path: Path):
    pytest.importorskip("torch", reason="this example trains with torch")
    where = "--torch-save" if script == "train_bytes.py" else "--checkpoint"
    whole = run(script, "--steps", 6, "--save-every", 3, where, tmp_path / "whole")
    args = (script, "--save-every", 3, where, tmp_path / "parts")
    run(*args, "--steps", 3)
    parts = run(*args, "--steps", 6)
    assert "resumed at step 3" in parts
    if script == "train_bytes.py":
        assert [path.name for path in sorted(tmp_path.iterdir())] == ["parts", "whole"]
    assert weights(parts) == weights(whole)


def test_the_click_model_learns():
    pytest.importorskip("torch", reason="this example trains with torch")
    output = run("click_model.py")
    before, after = (float(found) for found in re.findall(r"AUC ([0-9.]+)", output))
    assert before < 0.6 < 0.8 < after, output
    assert "table users: 2000 rows" in output
