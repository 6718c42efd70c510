"""`ps`, `status`, `stop` and `clean` tell the truth about jobs whose files or pids changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from job import Job, binary, eventually

TWO = ["--standalone", "--nproc-per-node", "2"]


@pytest.mark.alone
def test_a_job_whose_run_directory_was_moved_or_removed_is_listed_and_stopped(job: Job) -> None:
    job.be_patient().start_steps(TWO, steps=100000)
    job.until_stepping(2, beyond=3)
    job_id = job.card["id"]
    away = job.directory / "moved"
    job.run_dir.rename(away)
    eventually(lambda: f"was moved to {away}. " in job.stderr, "the launcher says so", job=job)
    listed = json.loads(job.command("ps", "--json").stdout)["jobs"]
    assert [(one["id"], one["run_dir"]) for one in listed] == [(job_id, str(away))]
    assert job.command("status").returncode == 0, "it is read where it is now"
    assert job_id not in job.command("clean").stdout
    away.rename(job.run_dir)
    eventually(lambda: f"is at {job.run_dir} again" in job.stderr, "it says that, too", job=job)
    (job.run_dir / "job.json").unlink()
    eventually(lambda: "was removed" in job.stderr, "the launcher says so", job=job)
    listed = json.loads(job.command("ps", "--json").stdout)["jobs"]
    assert [(one["id"], one["running"]) for one in listed] == [(job_id, True)]
    status = job.command("status")
    assert status.returncode != 0
    assert f"{job_id} runs, but its run directory is gone" in status.stderr
    assert job_id not in job.command("clean").stdout
    other = job.directory / "other"
    other.mkdir()
    elsewhere = subprocess.run(job.command_line("stop"), cwd=other, env=job.env,
                               check=False, capture_output=True, text=True)
    assert elsewhere.returncode != 0
    assert f"{job_id} (started in {job.directory})" in elsewhere.stderr
    stopped = job.command("stop", "--job", job_id)
    assert stopped.returncode == 0, stopped.stderr
    assert job.wait() == 143, job.stderr


@pytest.mark.alone
def test_a_pid_that_is_used_again_is_not_taken_for_the_job(job: Job) -> None:
    job.start_steps(TWO, steps=3)
    assert job.wait() == 0, job.stderr
    # Its command line has the word in it, as a path of a virtual environment may.
    stranger = subprocess.Popen(
        [sys.executable, "-c", "input()", "/opt/paceline/README.md"], stdin=subprocess.PIPE)
    (ended,) = json.loads(job.command("ps", "--all", "--json").stdout)["jobs"]
    assert ended["exit_code"] == 0 and ended["reason"] and ended["seconds"] > 0, ended
    try:
        card = json.loads((job.run_dir / "job.json").read_text())
        assert card["master"]["start_time"] > 0
        card["master"]["pid"] = card["launcher_pid"] = card["launcher"]["pid"] = stranger.pid
        (job.run_dir / "job.json").write_text(json.dumps(card))
        assert json.loads(job.command("ps", "--json").stdout)["jobs"] == []
        del card["master"]["start_time"], card["launcher"]  # of an older version
        (job.run_dir / "job.json").write_text(json.dumps(card))
        assert json.loads(job.command("ps", "--json").stdout)["jobs"] == []
    finally:
        stranger.communicate(b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_run_directory_below_a_folder_of_another_user_is_told_as_one(job: Job) -> None:
    hidden = job.directory / "hidden"
    hidden.mkdir(mode=0o700)
    env = {name: value for name, value in job.env.items() if name != "PACELINE_RUNTIME_DIR"}
    status = subprocess.run([binary(), "status", "--job", str(hidden / "runs" / "one")],
                            user=65534, env=env, check=False, capture_output=True, text=True)
    assert status.returncode != 0
    assert "cannot be looked at" in status.stderr, status.stderr


@pytest.mark.alone
def test_a_job_of_another_session_is_found(job: Job) -> None:
    runtime = Path(job.env["PACELINE_RUNTIME_DIR"])
    session = {**job.env, "XDG_RUNTIME_DIR": str(runtime)}
    del session["PACELINE_RUNTIME_DIR"]
    other = {name: value for name, value in session.items() if name != "XDG_RUNTIME_DIR"}
    runtime.mkdir(mode=0o700, exist_ok=True)
    job.env = other  # as cron has it: the registry is /tmp/paceline-UID
    job.start_steps(TWO, steps=100000)
    job.until_stepping(2, beyond=3)
    job.env = session
    listed = json.loads(job.command("ps", "--json").stdout)["jobs"]
    assert job.card["id"] in [one["id"] for one in listed]
    assert job.command("status", "--job", job.card["id"]).returncode == 0
    assert os.environ.get("PACELINE_RUNTIME_DIR") is None
