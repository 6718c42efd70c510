"""`paceline run --tf`: tasks by TF_CONFIG that restart alone, each at its old address."""

from __future__ import annotations

import json
import os
import signal

import pytest
from job import SCRIPTS, Job, JsonDict, eventually, lives
from test_commands import checked

FLAGS = ["--tf", "--workers", "3", "--ps", "2"]
NAMES = ["chief-0", "worker-0", "worker-1", "ps-0", "ps-1"]


def begin(job: Job, *args: str) -> None:
    job.be_patient().start(FLAGS, [str(SCRIPTS / "tasks.py"), "--dir", str(job.state), *args])


def tasks_of(job: Job) -> dict[str, JsonDict]:
    status = job.status() or {}
    return {task["name"]: task for task in status.get("tasks", [])}


def until_running(job: Job) -> dict[str, JsonDict]:
    def ask() -> dict[str, JsonDict] | None:
        tasks = tasks_of(job)
        are_there = [task["state"] == "running" and task["pid"] for task in tasks.values()]
        return tasks if len(are_there) == len(NAMES) and all(are_there) else None
    return eventually(ask, "all tasks run", job=job)


def starts_of(job: Job, name: str) -> list[tuple[int, JsonDict]]:
    lines = (job.state / f"{name}.starts").read_text().splitlines()
    return [(int(line.split(" ", 1)[0]), json.loads(line.split(" ", 1)[1])) for line in lines]


def steps_of(job: Job, name: str) -> int:
    path = job.state / f"{name}.steps"
    return path.stat().st_size if path.exists() else 0


def until_stepping(job: Job) -> None:
    """Until the chief and each worker have reached all servers once more."""
    workers = [name for name in NAMES if not name.startswith("ps")]
    before = {name: steps_of(job, name) for name in workers}
    for name in workers:
        eventually(lambda name=name: steps_of(job, name) > before[name] or None,
                   f"{name} makes a step", job=job)


def expect_only_restarted(job: Job, name: str, before: dict[str, JsonDict]) -> dict[str, JsonDict]:
    def ask() -> dict[str, JsonDict] | None:
        now = until_running(job)
        return now if now[name]["pid"] != before[name]["pid"] else None
    after = eventually(ask, f"{name} has another process", job=job)
    assert after[name]["restarts"] == before[name]["restarts"] + 1
    for other in NAMES:
        assert after[other]["address"] == before[other]["address"]
        if other != name:
            assert after[other]["pid"] == before[other]["pid"], f"{other} went on"
    until_stepping(job)
    return after


def test_each_task_restarts_alone_and_the_job_ends_with_the_workers(job: Job) -> None:
    begin(job)
    tasks = until_running(job)
    until_stepping(job)
    for name in ("worker-1", "ps-0", "chief-0"):
        os.kill(tasks[name]["pid"], signal.SIGKILL)
        tasks = expect_only_restarted(job, name, tasks)
        configs = [config["cluster"] for _, config in starts_of(job, name)]
        assert configs[0] == configs[1], "its addresses are the old ones"
    told = checked(job.command("tasks", "--json", "--job", str(job.run_dir)).stdout)
    assert [task["name"] for task in told["tasks"]] == NAMES
    shown = job.command("tasks", "--job", str(job.run_dir)).stdout
    assert [line.split()[0] for line in shown.splitlines()[1:]] == NAMES
    assert "killed by SIGKILL" in shown
    written = job.command("logs", "--task", "ps-1", "--job", str(job.run_dir)).stdout
    assert "ps-1 begins" in written and "ps-0" not in written
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert not lives(tasks["ps-1"]["pid"]), "the servers are stopped"
    assert [event["details"]["task"] for event in job.events("rank_failed")] == [
        "worker-1", "ps-0", "chief-0"]
    assert "worker-1 on node0 failed: killed by SIGKILL" in job.stderr
    assert "worker-0 is done" in job.stdout


def test_tasks_outlive_the_master_and_the_agent(job: Job) -> None:
    begin(job)
    tasks = until_running(job)
    for pid in (job.card["master"]["pid"], job.agent_pid("node0")):
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: not lives(pid), "it has ended")
        until_stepping(job)
        now = until_running(job)
        assert {name: task["pid"] for name, task in now.items()} == {
            name: task["pid"] for name, task in tasks.items()}
    os.kill(tasks["worker-0"]["pid"], signal.SIGKILL)
    tasks = expect_only_restarted(job, "worker-0", tasks)
    os.kill(tasks["ps-1"]["pid"], signal.SIGKILL)  # its port was held by the agent that died
    expect_only_restarted(job, "ps-1", tasks)
    job.let_go()
    assert job.wait() == 0, job.stderr


def test_a_task_that_raises_each_time_ends_the_job_with_its_exception(job: Job) -> None:
    begin(job, "--fail", "worker-1")
    assert job.wait() == 1, job.stderr
    assert len(starts_of(job, "worker-1")) == 3
    assert len(starts_of(job, "ps-0")) == 1, "the others were not restarted"
    assert "ValueError: worker-1 cannot read its input" in job.stderr
    end = job.events("job_finished")[0]["sentence"]
    assert "worker-1" in end and "3 times without progress" in end


@pytest.mark.parametrize(("flags", "code", "told"), [
    (["--ps", "2"], "PL-E140", "--ps needs --tf"),
    (["--tf", "--ps", "2"], "PL-E140", "--tf needs --workers"),
    (["--tf", "--workers", "3", "--nproc-per-node", "2"], "PL-E140", "do not fit on 1 node"),
    (["--tf", "--workers", "100"], "PL-E140", "do not fit on 1 node"),
    (["--tf", "--workers", "2", "--nnodes", "1:2"], "PL-E140", "a fixed number of nodes"),
])
def test_impossible_tasks_are_refused(job: Job, flags: list[str], code: str, told: str) -> None:
    job.start(flags, [str(SCRIPTS / "tasks.py"), "--dir", str(job.state)])
    assert job.wait() == 2
    assert code in job.stderr and told in job.stderr
