"""What ranks get when somebody stops their launcher: torchrun's signals, and then their grace."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from job import Job, eventually
from paceline._base.processes import stat_of

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


# ---- a master that does not answer ----

UNTIL_GO = """
import os, time
import paceline as pl

for n in range(10**6):
    time.sleep(0.01)
    pl.step(n)
    if os.path.exists("go"):
        break
"""


def test_ctrl_c_continues_a_master_that_was_stopped(job: Job) -> None:
    """It then ends the job as usual: the ranks save, and no failure is counted."""
    start(job, SAVES_ON_CTRL_C)
    assert job.launcher is not None
    master = job.card["master"]["pid"]
    os.kill(master, signal.SIGSTOP)
    eventually(lambda: stat_of(master)[:1] == ["T"], "the master is stopped")
    job.launcher.send_signal(signal.SIGINT)
    assert job.wait() == 130, job.stderr
    assert "was stopped by SIGSTOP. It is continued, to end the job." in job.stderr
    assert all((job.directory / f"saved{rank}").exists() for rank in range(2))
    assert [end["sentence"] for end in job.events("job_finished")]
    assert not job.events("rank_failed")


def test_a_stop_without_the_master_is_recorded_by_the_launcher(job: Job) -> None:
    """The master stays stopped whatever is done, so the launcher passes it over."""
    start(job, UNTIL_GO)
    assert job.launcher is not None
    with held(job.card["master"]["pid"]):
        job.launcher.send_signal(signal.SIGINT)
        assert job.wait() == 130, job.stderr
    assert "the agents are asked to stop their ranks" in job.stderr
    status = job.status()
    assert status is not None and status["job"]["phase"] == "finished", status
    assert "the master did not answer" in str(status["job"])
    assert "stopped by" in job.command("why", "--job", str(job.run_dir)).stdout
    (job.directory / "go").touch()
    job.start(["--resume"], [])
    assert job.wait() == 0, job.stderr
    assert len(job.events("job_resumed")) == 1
    assert not job.events("rank_failed")


@contextmanager
def held(pid: int) -> Iterator[None]:
    """Holds all threads of the process as a debugger does, so that SIGCONT continues none."""
    traced: set[str] = set()
    while left := set(os.listdir(f"/proc/{pid}/task")) - traced:
        for thread in left:
            ptrace(SEIZE, int(thread))
            ptrace(INTERRUPT, int(thread))
        traced |= left
    eventually(lambda: stat_of(pid)[:1] == ["t"], "the process is held")
    # The kernel tells the parent of its death only after the one that holds it has waited for it,
    # and for its other threads before.
    threads = [*(traced - {str(pid)}), str(pid)]
    waiting = threading.Thread(target=wait_for_death, args=(threads,), daemon=True)
    waiting.start()
    yield
    waiting.join()


SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def ptrace(request: int, thread: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_long(number) for number in (request, thread, 0, 0)]
    if libc.ptrace(*numbers) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def wait_for_death(threads: list[str]) -> None:
    for thread in threads:
        status = 0x7F  # stopped
        while os.WIFSTOPPED(status):
            try:
                _, status = os.waitpid(int(thread), WALL)
            except ChildProcessError:
                break
