"""`python -m paceline` is the command of that interpreter's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import DEADLINE_S

BESIDE = Path(sys.executable).parent / "paceline"


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items()
             if name != "PYTHONPATH" and not name.startswith("PACELINE_")}
    return subprocess.run([sys.executable, "-m", "paceline", *words], env={**clean, **(env or {})},
                          cwd="/", capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.mark.skipif(not BESIDE.exists(), reason="paceline is not installed beside this python")
def test_it_is_the_same_command() -> None:
    direct = subprocess.run([BESIDE, "version"], capture_output=True, text=True, timeout=DEADLINE_S,
                            check=True)
    done = run("version")
    assert (done.returncode, done.stdout) == (0, direct.stdout), done.stderr
    refused = run("--no-such-flag")
    assert refused.returncode == 2
    assert "error[PL-E" in refused.stderr


@pytest.mark.skipif(not BESIDE.exists(), reason="paceline is not installed beside this python")
def test_ranks_run_with_that_interpreter_unless_another_is_asked_for() -> None:
    done = run("config", "show", "launch.python")
    assert sys.executable in done.stdout, done.stderr
    other = run("config", "show", "launch.python", env={"PACELINE_LAUNCH_PYTHON": "/usr/bin/x"})
    assert "/usr/bin/x" in other.stdout, other.stderr
