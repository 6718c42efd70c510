"""supervisor.py ends all that its program has started, in any session, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import HERE
from job import eventually

# A daemon in a session of its own, whose parent has gone; then the program itself goes on or ends.
PROGRAM = """
import os, pathlib, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
sys.exit(3)
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_daemons_of_the_program_end_with_it(tmp_path: Path, is_killed: bool) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    die, daemon = tmp_path / "die", tmp_path / "daemon"
    supervisor = subprocess.Popen(
        [sys.executable, HERE / "supervisor.py", die, sys.executable, "-c", PROGRAM, daemon,
         "600" if is_killed else "0"], start_new_session=True)
    eventually(daemon.exists, "the daemon has started")
    if is_killed:
        die.touch()
    assert supervisor.wait(60) == (137 if is_killed else 3)
    assert not Path(f"/proc/{daemon.read_text()}").exists()
    time.sleep(0.05)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
