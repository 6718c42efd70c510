"""The command of [notify], on a real master: what it is told, and that it cannot harm the job."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from job import ROOT, Job, eventually
from jsonschema import Draft202012Validator

TWO = ["--standalone", "--nproc-per-node", "2"]
NOTICE = json.loads((ROOT / "docs" / "schemas" / "notice.json").read_text())


def notify(job: Job, *command: str, timeout: str = "60s") -> None:
    (job.directory / "paceline.toml").write_text(
        f"[notify]\ncommand = {json.dumps(command)}\ntimeout = \"{timeout}\"\n")


def told(job: Job) -> list[dict[str, Any]]:
    path = job.directory / "told"
    whole = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


def kill_rank(job: Job, rank: int) -> None:
    os.kill(job.until_stepping(2, beyond=5)[rank]["pid"], signal.SIGKILL)
    job.until_event("world_running", 2)


def test_a_failure_its_recovery_and_the_end_are_told(job: Job) -> None:
    notify(job, "sh", "-c", "cat >> told")
    job.be_patient().start_steps(TWO, "--hold", "20", steps=40)
    kill_rank(job, 1)
    eventually(lambda: len(told(job)) == 2, "failure and recovery are told", job=job)
    job.let_go()
    assert job.wait() == 0, job.stderr
    notices = told(job)
    for notice in notices:
        Draft202012Validator(NOTICE).validate(notice)
        assert notice["job"] == job.card["id"] and notice["dropped"] == 0
    assert [notice["kind"] for notice in notices] == ["failure", "recovery", "stop"]
    assert notices[0]["rank"] == 1 and "SIGKILL" in notices[0]["sentence"]
    assert notices[2]["exit_code"] == 0
    why = job.command("why", str(notices[0]["event"]), "--job", notices[0]["run_dir"])
    assert why.returncode == 0 and "SIGKILL" in why.stdout, why


def test_a_command_that_hangs_is_killed_and_told_once(job: Job) -> None:
    notify(job, "sh", "-c", "echo no route to pager; sleep 1000", timeout="5s")
    job.be_patient().start_steps(TWO, "--hold", "20", steps=40)
    kill_rank(job, 0)
    # The job goes on until then: another limit holds for commands that its end meets.
    log = job.run_dir / "logs" / "master.log"
    eventually(lambda: "notify_failed" in log.read_text(), "the command is killed", job=job)
    job.let_go()
    assert job.wait() == 0, job.stderr
    said = log.read_text()
    assert said.count("notify_failed") == 1, said
    assert "killed after 5 s" in said and "no route to pager" in said, said


def test_a_program_that_is_missing_is_refused_at_the_start(job: Job) -> None:
    notify(job, "pagerr", "--now")
    job.start_steps(TWO, steps=1)
    assert job.wait() == 2
    assert "PL-E013" in job.stderr and "pagerr" in job.stderr
