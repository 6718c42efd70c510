"""`--resume` of a job that has ended goes on with today's script, unless all is done."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hosts import Host, needs_hosts, start, until_training
from job import SCRIPTS, Job, eventually

ONE = ["--standalone", "--nproc-per-node", "1", "--stop-grace", "1h"]


@pytest.fixture
def job(job: Job) -> Job:
    return job.be_patient()  # runs and failures are counted


def script_of(job: Job, text: str) -> Path:
    script = job.directory / "script.py"
    script.write_text(text)
    return script


def test_a_job_that_failed_goes_on_with_the_mended_script(job: Job) -> None:
    script = script_of(job, "raise ValueError('not yet')\n")
    job.start([*ONE, "--max-restarts", "1"], [str(script)])
    assert job.wait() == 1, job.stderr
    failures = len(job.events("rank_failed"))
    assert failures == 2
    # Its budget is full again: one more failure does not end it.
    told = job.stderr
    script_of(job, "import os\n"
                   "if not os.path.exists('tried'):\n"
                   "    open('tried', 'w').close()\n"
                   "    raise ValueError('once more')\n"
                   "print('mended')\n")
    job.start(["--resume"], [])
    assert job.wait() == 0, job.stderr
    assert "mended" in job.stdout
    assert len(job.events("rank_failed")) == failures + 1
    resumed = job.events("job_resumed")
    assert len(resumed) == 1
    assert "exit code 1" in resumed[0]["sentence"]
    before, _, news = job.stderr[len(told):].partition("` tell about them.")
    assert "before: 1 run since" in before and "paceline why --job" in before, before
    assert "not yet" not in news and "once more" in news, news


def test_a_job_that_was_stopped_goes_on(job: Job) -> None:
    script = script_of(job, "import os, time\n"
                            "while not os.path.exists('go'):\n"
                            "    open('began', 'w').close()\n"
                            "    time.sleep(0.02)\n"
                            "print('done now')\n")
    job.start(ONE, [str(script)])
    eventually((job.directory / "began").exists, "the script runs", job=job)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGTERM)
    assert job.wait() == 143, job.stderr
    (job.directory / "go").touch()
    job.start(["--resume"], [])
    assert job.wait() == 0, job.stderr
    assert "done now" in job.stdout
    why = job.command("why", "--job", str(job.run_dir)).stdout
    assert "\nthe job was resumed by `paceline run`, after its end with exit code 143 (" in why, why


def test_a_resume_right_after_the_end_waits_for_the_last_processes(job: Job) -> None:
    """Without a launcher, the master is there for a moment after `paceline wait` has returned."""
    script = script_of(job, "import os, time\n"
                            "while not os.path.exists('go'):\n"
                            "    open('began', 'w').close()\n"
                            "    time.sleep(0.02)\n"
                            "print('done now')\n")
    job.start(["--standalone", "--nproc-per-node", "1"], [str(script)])
    eventually((job.directory / "began").exists, "the script runs", job=job)
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0
    assert job.command("wait", "--job", str(job.run_dir)).returncode == 143
    (job.directory / "go").touch()
    job.start(["--resume"], [])
    assert job.wait() == 0, job.stderr
    assert "done now" in job.stdout
    assert len(job.events("job_resumed")) == 1


def test_a_resume_names_what_it_ignores(job: Job) -> None:
    """It keeps the flags that no file of the run directory has, such as --ckpt-every."""
    script = script_of(job, "import os, sys\n"
                            "every = os.environ['PACELINE_CHECKPOINT_EVERY']\n"
                            "open('arguments', 'w').write(' '.join([*sys.argv[1:], every]))\n"
                            "assert os.path.exists('go')\n")
    job.start(["--standalone", "--max-restarts", "0", "--ckpt-every", "7"], [str(script), "20"])
    assert job.wait() == 1, job.stderr
    (job.directory / "go").touch()
    job.start(["--resume", "--nproc-per-node", "2"], [str(script), "30"])
    assert job.wait() == 0, job.stderr
    assert f"ignores: --nproc-per-node 2, {script} 30. " in job.stderr
    assert "name another --run-dir" in job.stderr
    assert (job.directory / "arguments").read_text() == "20 7"


def test_a_job_that_ended_well_is_not_run_again(job: Job) -> None:
    script = script_of(job, "open('runs', 'a').write('x')\n")
    job.start(ONE, [str(script)])
    assert job.wait() == 0, job.stderr
    for name in (str(job.run_dir), job.card["id"]):
        again = job.command("run", "--resume", "--run-dir", name)
        assert again.returncode == 0, again.stderr
        assert "has ended already with exit code 0" in again.stderr
    assert (job.directory / "runs").read_text() == "x"


# ---- a run directory that outlives its container ----

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
UNTIL_GO = ("import os, time\n"
            "open('runs', 'a').write('x')\n"
            "while not os.path.exists('go'):\n"
            "    time.sleep(0.02)\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: a container of one's own needs root")
@pytest.mark.alone
def test_the_same_command_in_the_next_container_goes_on(job: Job) -> None:
    """A scheduler knows one command, and the directory is on a disk that stays."""
    script = script_of(job, UNTIL_GO)
    job.start(ONE, [str(script)], CONTAINER)
    runs = job.directory / "runs"
    eventually(lambda: runs.exists() and runs.read_text() == "x", "the script runs", job=job)
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()
    eventually(lambda: not job.leftovers(), "its container has ended")
    name = job.card["id"]
    other = job.command("run", "--run-dir", str(job.run_dir), *ONE, str(script), "--other")
    assert other.returncode != 0 and "PL-E020" in other.stderr, "another command is another job"
    (job.directory / "go").touch()
    job.start(ONE, [str(script)], CONTAINER)
    assert job.wait() == 0, job.stderr
    assert "as --resume does" in job.stderr
    assert job.card["id"] == name
    assert (job.directory / "runs").read_text() == "xx"
    job.start(ONE, [str(script)], CONTAINER)
    assert job.wait() == 0, job.stderr
    assert "has ended already with exit code 0" in job.stderr


def test_the_same_command_in_the_same_place_is_refused(job: Job) -> None:
    script = script_of(job, "")
    job.start(ONE, [str(script)])
    assert job.wait() == 0, job.stderr
    job.start(ONE, [str(script)])
    assert job.wait() != 0
    assert "PL-E020" in job.stderr


@needs_hosts
def test_a_job_without_encryption_goes_on_without_it(hosts: list[Host]) -> None:
    """`--insecure` was forgotten, and the master refused its own address."""
    first = hosts[0]
    script = script_of(first.job, UNTIL_GO)
    token = first.job.directory / "token"
    token.touch(0o600)
    token.write_text("a" * 64)
    first.start(["--nnodes", "1", "--insecure", "--token-file", str(token)], [str(script)])
    eventually((first.job.directory / "runs").exists, "the script runs", job=first.job)
    assert first.job.launcher is not None
    first.job.launcher.send_signal(signal.SIGTERM)
    assert first.job.wait() == 143, first.job.stderr
    (first.job.directory / "go").touch()
    first.start(["--resume"])
    assert first.job.wait() == 0, first.job.stderr


@needs_hosts
def test_a_stop_after_a_host_was_lost_keeps_the_memory_of_the_others(hosts: list[Host]) -> None:
    """Its rank's image had no copy. Ranks with equal state go on from that of another rank."""
    pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
    first, second, _ = hosts
    here = first.job.directory
    start([first, second], "--nnodes", "2", script=[
        str(SCRIPTS / "flash.py"), "--checkpoint", str(here / "ckpt"), "--out", str(here / "out"),
        "--steps", "100000", "--every", "1000000", "--replicas", "0"])
    until_training(first, 2, beyond=20)
    lost = len(first.job.events("node_lost"))
    second.crash()
    first.job.until_event("node_lost", lost + 1)
    assert first.job.launcher is not None
    first.job.launcher.send_signal(signal.SIGTERM)
    assert first.job.wait() == 143, first.job.stderr
    assert "PL-E066" in first.job.stderr
    assert "a host that had a part of it in memory is lost" in first.job.stderr
    step = first.job.events("checkpoint_not_stored")[-1]["step"]
    second.boot()
    for host in (first, second):
        host.start(["--resume"])
    until_training(first, 2, beyond=int(step) + 1)
    begun = first.job.events("restore_decided")[-1]
    assert "from memory" in begun["sentence"]
    assert begun["step"] >= step, "the rank that is left may have saved one step more"
