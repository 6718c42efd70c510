"""`paceline attach` shows a running job and leaves it alone."""

from __future__ import annotations

import os
import signal
import subprocess

from job import DEADLINE_S, Job, eventually, lives

TWO = ["--standalone", "--nproc-per-node", "2"]


def attach(job: Job) -> subprocess.Popen[str]:
    return subprocess.Popen(job.command_line("attach", "--job", str(job.run_dir)), env=job.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_leaves_the_job_running(job: Job) -> None:
    job.start_steps([*TWO, "--detach"], "--print", steps=100000)
    assert job.wait() == 0, job.stderr
    job.until_stepping(2, beyond=3)
    looking = attach(job)
    assert looking.stdout is not None
    assert any("| step " in line for line in looking.stdout)  # up to the first one
    looking.send_signal(signal.SIGINT)
    _, narration = looking.communicate(timeout=DEADLINE_S)
    assert looking.returncode == 0, narration
    assert "goes on" in narration
    before = job.step()
    eventually(lambda: job.step() > before or None, "the job goes on")
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0


def test_it_ends_with_the_job_and_its_exit_code(job: Job) -> None:
    job.be_patient().start_steps([*TWO, "--detach", "--max-restarts", "1"],
                                 "--fail", "1:150:exit:3!", "--hold", "100", steps=100000)
    assert job.wait() == 0, job.stderr
    victim = job.until_stepping(2, beyond=3)[0]["pid"]
    looking = attach(job)
    assert looking.stderr is not None
    assert "Attached to" in (told := looking.stderr.readline())
    assert ": step " in told and "world 1 of 2 ranks" in told, told  # before a rank prints
    os.kill(victim, signal.SIGKILL)
    job.until_event("world_formed", 2)  # rank 1 fails in this one, and not beside the first failure
    job.let_go()
    _, narration = looking.communicate(timeout=DEADLINE_S)
    assert looking.returncode == 1, narration
    assert "killed by SIGKILL" in narration and "restart process" in narration
    again = job.command("attach", "--job", str(job.run_dir))
    assert again.returncode == 1 and "Ended: " in again.stderr


def kill(pid: int) -> None:
    """Returns when the process has ended: a command that comes before may still reach it."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(pid), f"process {pid} has ended")


def kill_launcher_of(job: Job) -> None:
    """The job trains, and nobody watches over it."""
    job.be_patient().start_steps(TWO, steps=100000)
    job.until_stepping(2)
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()


def take_over(job: Job) -> None:
    job.start(["--resume"], [])
    job.until_watched()  # a job that was stopped before would be resumed for good
    job.until_stepping(2)
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0
    job.wait()


def test_a_job_whose_master_is_gone_says_how_to_take_it_over(job: Job) -> None:
    kill_launcher_of(job)
    kill(job.card["master"]["pid"])
    for word in ("status", "why"):
        done = job.command(word, "--job", str(job.run_dir))
        said = done.stdout + done.stderr
        assert f"paceline run --resume --run-dir {job.run_dir} takes over" in said, said
    for word in ("stop", "stacks", "attach"):  # the agent and its ranks live
        done = job.command(word, "--job", str(job.run_dir))
        assert done.returncode == 3 and "its agents and ranks go on" in done.stderr, done
        assert f"paceline run --resume --run-dir {job.run_dir} takes over" in done.stderr, done
    take_over(job)


def test_a_job_whose_launcher_tries_names_no_command_that_is_refused(job: Job) -> None:
    """`paceline run --resume` beside a launcher would be refused."""
    job.be_patient().start_steps(TWO, steps=100000)
    job.until_stepping(2)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGSTOP)  # or the next master answers
    kill(job.card["master"]["pid"])
    try:
        for word in ("status", "why"):
            done = job.command(word, "--job", str(job.run_dir))
            said = done.stdout + done.stderr
            assert f"(process {job.launcher.pid}) starts the master again" in said, said
            assert "--resume" not in said, said
        refused = job.command("stacks", "--job", str(job.run_dir))
        assert f"(process {job.launcher.pid}) starts the master again" in refused.stderr, refused
        assert "--resume" not in refused.stderr, refused
    finally:
        job.launcher.send_signal(signal.SIGCONT)


def test_it_says_when_nobody_watches_over_the_job(job: Job) -> None:
    kill_launcher_of(job)
    looking = attach(job)
    assert looking.stderr is not None
    lines = [looking.stderr.readline() for _ in range(2)]
    looking.send_signal(signal.SIGTERM)
    looking.communicate(timeout=DEADLINE_S)
    assert any("launcher is gone" in line for line in lines), lines
    for word in ("status", "why"):
        told = job.command(word, "--job", str(job.run_dir)).stdout
        assert "its launcher is gone" in told and f"--run-dir {job.run_dir}" in told, told
    assert job.launcher is not None
    rows = [line.split() for line in job.command("ps").stdout.splitlines()]
    row = next(row for row in rows if row[0] == job.card["id"])
    assert row[1:4] == ["running", str(job.card["master"]["pid"]), "-"], row
    take_over(job)
