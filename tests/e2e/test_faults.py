"""One test for each row of the table of faults: the real binary, real processes, real signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from job import TOGETHER, Job, eventually, lives

TWO = ["--standalone", "--nproc-per-node", "2"]
NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2"]
LOSING = [*NODES, "--replace-nodes", "off"]


def test_a_job_that_ends_well(job: Job) -> None:
    job.be_patient().start_steps(TWO, "--print", steps=5)
    assert job.wait() == 0, job.stderr
    assert "step 4" in job.stdout
    assert [step for _, step in job.steps_done(1)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("how", "words"), [
    ("raise", "ValueError: bad batch"),
    ("kill", "SIGKILL"),
    ("segv", "SIGSEGV"),
    ("exit:137", "exited with code 137"),
])
def test_a_failed_rank_is_restarted(job: Job, how: str, words: str) -> None:
    job.be_patient().start_steps(TWO, "--fail", f"1:10:{how}", steps=40)
    assert job.wait() == 0, job.stderr
    failed = job.events("rank_failed")
    assert [event["rank"] for event in failed if words in event["sentence"]] == [1], failed
    assert not any("out of memory" in event["sentence"] for event in failed)
    assert len(job.events("world_formed")) == 2
    generation, step = job.steps_done(1)[-1]
    assert generation > 1 and step == 39


def test_the_traceback_is_shown_once_with_its_rank(job: Job) -> None:
    job.be_patient().start_steps(
        [*TWO, "--max-restarts", "0"], "--fail", "1:3:raise!", steps=40)
    assert job.wait() == 1
    assert job.stderr.count("Traceback (most recent call last):") == 1, job.stderr
    assert "node0:1| ValueError: bad batch" in job.stderr
    assert "where  rank 1 on node0, step" in job.stderr


def test_a_traceback_that_the_console_does_not_show_stands_at_the_end(job: Job) -> None:
    job.be_patient().start_steps(
        [*TWO, "--max-restarts", "0", "--redirects", "3"], "--fail", "1:3:raise!", steps=40)
    assert job.wait() == 1
    first = job.stderr.index("First failure in world 1, rank 1 on node0")
    assert job.stderr.count("Traceback (most recent call last):") == 1, job.stderr
    assert "ValueError: bad batch" in job.stderr[first:]


def test_the_same_failure_three_times_stops_the_job(job: Job) -> None:
    # One rank: those of steps.py do not wait for each other, and any step is progress.
    job.be_patient().start_steps(["--standalone"], "--fail", "0:7:raise!", steps=40)
    assert job.wait() == 1
    assert len(job.events("rank_failed")) == 3
    assert len(job.events("world_formed")) == 3


def test_progress_refills_the_budget(job: Job) -> None:
    job.be_patient().start_steps(TWO, steps=100000)
    done = 0
    for count in range(1, 7):
        ranks = job.until_stepping(2, beyond=done + 1)
        done = max(rank["step"] for rank in ranks.values())
        os.kill(ranks[0]["pid"], signal.SIGKILL)
        job.until_event("world_running", count + 1)
    job.until_stepping(2, beyond=done + 1)
    assert len(job.events("rank_failed")) == 6


def test_a_lost_node_is_replaced_by_the_spare(job: Job) -> None:
    job.be_patient().start_steps([*LOSING, "--spares", "1"], steps=100000)
    before = job.until_stepping(4, beyond=5)
    lost = before[2]["node"]
    job.kill_node(lost)
    job.until_event("world_running", 2)
    after = job.until_stepping(4)
    assert {rank: after[rank]["node"] for rank in (0, 1)} == {
        rank: before[rank]["node"] for rank in (0, 1)}
    assert after[2]["node"] == after[3]["node"] != lost
    os.kill(job.card["launcher_pid"], signal.SIGINT)
    assert job.wait() == 130, job.stderr


def test_without_a_spare_the_world_shrinks(job: Job) -> None:
    job.be_patient().env |= TOGETHER
    job.start_steps([*LOSING, "--nnodes", "1:2"], "--hold", "390", steps=400)
    before = job.until_stepping(4, beyond=5)
    job.kill_node(before[2]["node"])
    job.until_event("world_running", 2)
    after = job.until_stepping(2)
    assert set(after) == {0, 1}
    assert after[0]["node"] == before[0]["node"]
    job.let_go()
    assert job.wait() == 0, job.stderr


def test_at_the_minimum_it_waits_and_says_for_what(job: Job) -> None:
    job.be_patient().start_steps(LOSING, steps=100000)
    before = job.until_stepping(4, beyond=5)
    job.kill_node(before[2]["node"])
    status = eventually(
        lambda: (lambda s: s if s and s["job"]["phase"] == "waiting" else None)(job.status()),
        "the job waits")
    assert "node" in status["job"]["pending"]


def test_a_lost_node_is_started_again(job: Job) -> None:
    job.be_patient().start_steps(NODES, "--hold", "390", steps=400)
    lost = job.until_stepping(4, beyond=5)[2]["node"]
    job.kill_node(lost)
    job.until_event("node_lost")
    job.until_stepping(4)
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert [event["node"] for event in job.events("node_lost")] == [lost]


def test_a_killed_agent_costs_no_step(job: Job) -> None:
    job.be_patient().start_steps(TWO, "--print", "--hold", "240", steps=250)
    before = job.until_stepping(2, beyond=10)
    former = job.agent_pid("node0")
    os.kill(former, signal.SIGKILL)
    eventually(lambda: job.agent_pid("node0") != former, "a new agent")
    after = job.until_stepping(2, beyond=min(before[0]["step"] + 20, 239))
    assert {rank: after[rank]["pid"] for rank in after} == {
        rank: before[rank]["pid"] for rank in before}
    # Where the job holds, no step tells that the new agent has reached the master.
    eventually(lambda: "the agent of node0 was started again; its " in job.command(
        "why", "--job", str(job.run_dir)).stdout, "the restart is told", job=job)
    job.let_go()
    assert job.wait() == 0, job.stderr
    for rank in (0, 1):
        assert job.steps_done(rank) == [(1, step) for step in range(250)]
    assert sum(line.endswith(" step 249") for line in job.stdout.splitlines()) >= 1


SLOW_FORK = """
import os, time
def wait():
    while os.path.exists({file!r}):
        open({file!r} + ".reached", "w").close()
        time.sleep(0.01)
os.register_at_fork(before=wait)
"""


def test_a_starter_that_imports_for_longer_than_the_start_timeout_is_waited_for(
        tmp_path: Path) -> None:
    (tmp_path / "far_away.py").write_text("import time\ntime.sleep(12)\n")
    env = {"PYTHONPATH": str(tmp_path), "PACELINE_TIMERS_START_TIMEOUT": "10s"}
    job = Job(tmp_path, "run", env=env, is_alone=True)
    job.be_patient().start_steps([*TWO, "--preload", "far_away"], steps=40)
    assert job.wait() == 0, job.stderr
    assert job.events("node_lost") == []
    assert job.events("rank_failed") == []
    assert [event["generation"] for event in job.events("world_formed")] == [1]


def test_a_rank_that_a_dead_agent_had_ordered_belongs_to_the_next_one(tmp_path: Path) -> None:
    """The starter is slow: it forks when the next agent has already looked who is there."""
    slow = tmp_path / "slow"
    (tmp_path / "sitecustomize.py").write_text(SLOW_FORK.format(file=str(slow)))
    job = Job(tmp_path, "run", env={"PYTHONPATH": str(tmp_path)}, is_alone=True)
    job.be_patient().start_steps([*TWO, "--max-restarts", "2"], "--hold", "290", steps=300)
    ranks = job.until_stepping(2, beyond=5)
    agent_log = job.run_dir / "logs" / "node0" / "agent.log"

    slow.touch()
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    reached = tmp_path / "slow.reached"
    eventually(reached.exists, "the starter is about to fork a new rank", job=job)
    os.kill(job.agent_pid("node0"), signal.SIGKILL)
    eventually(lambda: agent_log.read_text().count(" master_linked ") >= 2,
               "the next agent knows the master", job=job)
    slow.unlink()
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert len(job.events("rank_failed")) == 1
    assert "generation=2 alive=true" in agent_log.read_text(), "it found the rank of the other's"


@pytest.mark.parametrize("flags", [[*NODES, "--spares", "1"], [*NODES, "--nnodes", "1:2"]])
def test_a_job_that_ends_while_a_node_is_silent_starts_no_agents_again(
        job: Job, flags: list[str]) -> None:
    """The end waits for the silent node for a while, and the other agents have left by then."""
    job.env |= TOGETHER
    job.start_steps(flags, "--hold", "30", steps=60)
    node = job.until_stepping(4, beyond=5)[3]["node"]
    with job.frozen(node):
        (job.state / "go").touch()
        assert job.wait() == 0, job.stderr
    assert job.events("node_lost")
    assert "starting it again" not in job.stderr


def test_a_frozen_agent_is_fenced_and_returns_as_a_spare(job: Job) -> None:
    job.start_steps([*NODES, "--spares", "1"], steps=100000)
    before = job.until_stepping(4, beyond=5)
    frozen = before[2]["node"]
    former = before[2]["pid"]
    pid = job.agent_pid(frozen)
    os.kill(pid, signal.SIGSTOP)
    try:
        job.until_event("node_lost")
        after = eventually(
            lambda: (lambda r: r if len(r) >= 4 and r[2]["node"] != frozen else None)(job.ranks()),
            "the spare holds rank 2")
        assert after[2]["pid"] != former
    finally:
        os.kill(pid, signal.SIGCONT)
    node = eventually(lambda: (lambda n: n if n and n["state"] == "spare" else None)(
        job.node(frozen)), "the fenced node is a spare")
    assert not any(rank["state"] == "stepping" for rank in node["ranks"])
    eventually(lambda: not os.path.exists(f"/proc/{former}") or None, "its old rank is dead")


def test_a_killed_master_costs_no_step(job: Job) -> None:
    job.be_patient().start_steps(NODES, "--hold", "290", steps=300)
    before = job.until_stepping(4, beyond=5)
    former = job.card["master"]["pid"]
    os.kill(former, signal.SIGKILL)
    # Without any master the status is the journal's, and names none.
    after = eventually(lambda: (lambda s: s if s and s["master"]["pid"] not in (None, former)
                                else None)(job.status()), "a new master serves")
    assert after["world"]["generation"] == 1
    assert {rank["pid"] for rank in job.until_stepping(4).values()} == {
        rank["pid"] for rank in before.values()}
    job.let_go()
    assert job.wait() == 0, job.stderr
    for rank in range(4):
        assert job.steps_done(rank) == [(1, step) for step in range(300)]


def test_a_rank_that_dies_with_the_master_is_recovered(job: Job) -> None:
    job.start_steps(NODES, "--hold", "290", steps=300)
    before = job.until_stepping(4, beyond=5)
    os.kill(job.card["master"]["pid"], signal.SIGKILL)
    os.kill(before[3]["pid"], signal.SIGKILL)
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert job.steps_done(3)[-1][1] == 299


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_gives_ranks_their_grace(job: Job, number: int, code: int) -> None:
    job.start_steps([*TWO, "--stop-grace", "20s"], steps=100000)
    ranks = job.until_stepping(2, beyond=3)
    assert job.launcher is not None
    job.launcher.send_signal(number)
    assert job.wait() == code, job.stderr
    assert f"Stopping, by {signal.Signals(number).name} from " in job.stderr
    assert not any(lives(rank["pid"]) for rank in ranks.values())


def test_a_second_signal_forces(job: Job) -> None:
    script = job.directory / "stubborn.py"
    script.write_text("import signal, time\nimport paceline as pl\n"
                      "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                      "for n in range(10**6):\n    time.sleep(0.01)\n    pl.step(n)\n")
    job.start([*TWO, "--stop-grace", "1h"], [str(script)])
    job.until_stepping(2, beyond=3)
    job.stop_by_force()
    assert job.wait() == 130, job.stderr


SAVES_IN_ITS_GRACE = """
import os, signal, time
from pathlib import Path
import paceline as pl

def save(*_):
    Path(f"asked{os.environ['RANK']}").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    Path(f"saved{os.environ['RANK']}").touch()
    os._exit(0)

signal.signal(signal.SIGTERM, save)
for n in range(10**6):
    time.sleep(0.01)
    pl.step(n)
"""


def test_sigterm_twice_and_stop_twice_are_one_request(job: Job) -> None:
    # `timeout`, systemd, Slurm and Kubernetes signal a process, and then its group.
    script = job.directory / "saves.py"
    script.write_text(SAVES_IN_ITS_GRACE)
    job.be_patient().start([*TWO, "--stop-grace", "1h"], [str(script)])
    job.until_stepping(2, beyond=3)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGTERM)
    job.launcher.send_signal(signal.SIGTERM)
    os.kill(job.agent_pid("node0"), signal.SIGTERM)
    os.kill(job.agent_pid("node0"), signal.SIGTERM)
    asked = [job.directory / f"asked{rank}" for rank in range(2)]
    eventually(lambda: all(path.exists() for path in asked), "both ranks begin to save")
    job.launcher.send_signal(signal.SIGTERM)
    for _ in range(2):
        job.command("stop", "--stop-grace", "1h", "--job", str(job.run_dir))
    (job.directory / "go").touch()
    assert job.wait() == 143, job.stderr
    assert all((job.directory / f"saved{rank}").exists() for rank in range(2)), job.stderr
    assert "Stopping at once" not in job.stderr


def test_two_jobs_of_one_host_do_not_mix(make_job: Callable[..., Job]) -> None:
    first = make_job("first").be_patient().start_steps(TWO, steps=120)
    second = make_job("second").start_steps(TWO, "--fail", "0:5:kill", steps=120)
    assert first.wait() == 0, first.stderr
    assert second.wait() == 0, second.stderr
    assert first.steps_done(0) == [(1, step) for step in range(120)]
    assert not first.events("rank_failed")


def test_a_directory_in_use_is_refused(job: Job) -> None:
    job.start_steps(TWO, steps=100000)
    job.until_stepping(2)
    refused = job.command("run", "--run-dir", str(job.run_dir), *TWO, "x.py")
    assert refused.returncode == 2
    # The script is looked at first; with one that exists the directory is what is wrong.
    script = job.directory / "x.py"
    script.write_text("")
    refused = job.command("run", "--json", "--run-dir", str(job.run_dir), *TWO, str(script))
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["code"] == "PL-E020"
    job.until_stepping(2, beyond=5)


def test_the_job_outlives_its_launcher_and_is_resumed(job: Job) -> None:
    job.be_patient().start_steps(NODES, "--hold", "390", steps=400)
    before = job.until_stepping(4, beyond=5)
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()
    job.until_stepping(4, beyond=min(before[0]["step"] + 10, 389))
    job.start(["--resume"], [])
    job.until_watched()
    job.let_go()
    assert job.wait() == 0, job.stderr
    for rank in range(4):
        assert job.steps_done(rank) == [(1, step) for step in range(400)]


def test_a_detached_job_runs_without_a_terminal(job: Job) -> None:
    job.start_steps([*TWO, "--detach"], steps=30)
    assert job.wait() == 0, job.stderr
    assert job.stdout.strip() == job.card["id"]
    status = job.status()  # the next command finds the job, however soon it comes
    assert status is not None and status["job"]["id"] == job.card["id"]
    assert job.events("job_created")
    job.until_event("job_finished")
    eventually(lambda: not job.leftovers() or None, "everything has ended")


def test_a_program_that_is_not_python(job: Job) -> None:
    job.start([*TWO, "--no-python"], ["/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE"])
    assert job.wait() == 0, job.stderr
    assert {"node0:0| rank 0 of 2", "node0:1| rank 1 of 2"} <= set(job.stdout.splitlines())


@pytest.mark.parametrize(("how", "code"), [("exit:7!", 7), ("segv!", 139)])
def test_the_exit_code_of_the_failed_rank_is_passed_on(job: Job, how: str, code: int) -> None:
    job.start_steps([*TWO, "--passthrough-exit", "--max-restarts", "0"], "--fail", f"1:3:{how}")
    assert job.wait() == code, job.stderr


def test_a_job_that_fails_before_its_launcher_has_connected(job: Job) -> None:
    for _ in range(5):  # a rank of a shell ends within milliseconds
        shell = ["/bin/sh", "-c", "exit 7"]
        job.start([*TWO, "--passthrough-exit", "--max-restarts", "0", "--no-python"], shell)
        assert job.wait() == 7, job.stderr
        assert "exited with code 7" in job.stderr
        assert "The master died" not in job.stderr
        shutil.rmtree(job.run_dir)


def test_a_job_that_cannot_go_on_detached_says_so_at_once(job: Job) -> None:
    job.start_steps(TWO, steps=3)
    assert job.wait() == 0, job.stderr
    (job.run_dir / "journal.db").write_bytes(b"no database at all " * 1000)
    for rest in ("journal.db-wal", "journal.db-shm"):
        (job.run_dir / rest).unlink(missing_ok=True)
    refused = job.command("run", "--resume", "--detach", "--run-dir", str(job.run_dir))
    assert refused.returncode != 0
    # The cause, with its four parts, and not that the launcher gave up because of it.
    assert re.findall(r"error\[(PL-E\d+)\]", refused.stderr) == ["PL-E034"], refused.stderr
    words = refused.stderr.partition("error[PL-E034]")[2]
    assert all(part in words for part in ("where", "why", "fix")), refused.stderr
    assert str(job.run_dir) in refused.stderr
