"""What ranks get when somebody stops their launcher: torchrun's signals, and then their grace."""

from __future__ import annotations

import os
import signal

import pytest
from job import Job, eventually

TWO = ["--standalone", "--nproc-per-node", "2", "--stop-grace", "1h"]

SAVES_ON_CTRL_C = """
import atexit, os, time
from pathlib import Path
import paceline as pl

rank = os.environ["RANK"]
atexit.register(lambda: Path(f"atexit{rank}").touch())
try:
    for n in range(10**6):
        time.sleep(0.01)
        pl.step(n)
except KeyboardInterrupt:
    time.sleep(0.5)  # it saves; a SIGTERM would end it here
    Path(f"saved{rank}").touch()
    raise
finally:
    Path(f"finally{rank}").touch()
"""

TELLS_ITS_SIGNAL = """
import os, signal, sys, time
from pathlib import Path
import paceline as pl

def end(number, _frame):
    Path(f"got{os.environ['RANK']}").write_text(signal.Signals(number).name)
    sys.exit(0)

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, end)
for n in range(10**6):
    time.sleep(0.01)
    pl.step(n)
"""


def start(job: Job, text: str, *flags: str) -> None:
    script = job.directory / "script.py"
    script.write_text(text)
    job.be_patient().start([*TWO, *flags], [str(script)])
    job.until_stepping(2, beyond=3)


def test_ctrl_c_is_a_keyboard_interrupt_in_the_script(job: Job) -> None:
    start(job, SAVES_ON_CTRL_C)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGINT)
    assert job.wait() == 130, job.stderr
    for rank in range(2):
        for name in ("saved", "finally", "atexit"):
            assert (job.directory / f"{name}{rank}").exists(), job.stderr
    assert "First failure" not in job.stderr
    assert "PL-E060" not in job.stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_the_signal_that_came_is_handed_on(job: Job, number: signal.Signals) -> None:
    start(job, TELLS_ITS_SIGNAL, "--signals-to-handle", "SIGTERM,SIGHUP,SIGQUIT,SIGUSR1")
    assert job.launcher is not None
    job.launcher.send_signal(number)
    assert job.wait() == 128 + number, job.stderr
    assert [(job.directory / f"got{rank}").read_text() for rank in range(2)] == [number.name] * 2


def test_a_signal_to_an_agent_is_handed_on(job: Job) -> None:
    start(job, SAVES_ON_CTRL_C)
    os.kill(job.agent_pid("node0"), signal.SIGINT)
    eventually(lambda: all((job.directory / f"atexit{rank}").exists() for rank in range(2)),
               "both ranks end in order", job=job)
    assert all((job.directory / f"saved{rank}").exists() for rank in range(2))


def test_ranks_know_the_signals(job: Job) -> None:
    script = job.directory / "env.py"
    script.write_text("import os\nprint(os.environ['TORCHELASTIC_SIGNALS_TO_HANDLE'])\n")
    job.start([*TWO[:1], "--nproc-per-node", "1", "--signals-to-handle", "SIGTERM,SIGUSR2"],
              [str(script)])
    assert job.wait() == 0, job.stderr
    assert "SIGTERM,SIGUSR2" in job.stdout
