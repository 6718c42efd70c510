"""What cannot work is said at once, in four parts, and touches nothing that runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from free_ports import free_port
from job import SCRIPTS, Job, eventually

pytestmark = pytest.mark.alone

TWO = ["--standalone", "--nproc-per-node", "2"]


def refusal(job: Job, *words: str) -> dict[str, str]:
    done = job.command("run", "--json", "--run-dir", str(job.run_dir), *words)
    assert done.returncode in (2, 4), done
    problem = json.loads(done.stdout)
    assert problem["schema"] == "paceline.error/1"
    assert problem["message"] and problem["cause"] and problem["fix"]
    return problem


def test_a_missing_script(job: Job) -> None:
    assert refusal(job, *TWO, "nowhere.py")["code"] == "PL-E008"


def test_a_bad_flag(job: Job) -> None:
    assert refusal(job, "--nproc-per-nod3", "2", "x.py")["code"] == "PL-E001"


def test_nothing_to_resume(job: Job) -> None:
    assert refusal(job, "--resume")["code"] in ("PL-E021", "PL-E026")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written(job: Job) -> None:
    job.directory.joinpath("locked").mkdir(mode=0o500)
    job.run_dir = job.directory / "locked" / "run"
    assert refusal(job, *TWO, str(SCRIPTS / "steps.py"))["code"] == "PL-E021"


def test_output_that_cannot_be_written(job: Job) -> None:
    script = str(SCRIPTS / "steps.py")
    for taken in (script, "/proc/logs"):
        problem = refusal(job, "--log-dir", taken, *TWO, script)
        assert problem["code"] == "PL-E021" and problem["where"] == f"--log-dir {taken}"
    assert not job.run_dir.exists()


def test_a_runtime_directory_that_others_may_enter(job: Job) -> None:
    runtime = Path(job.env["PACELINE_RUNTIME_DIR"])
    runtime.mkdir(mode=0o755)
    runtime.chmod(0o755)
    assert refusal(job, *TWO, str(SCRIPTS / "steps.py"))["code"] == "PL-E041"


@contextmanager
def foreign_port() -> Iterator[int]:
    """A port of loopback on which a program listens that is not paceline."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_taken_port(job: Job) -> None:
    with foreign_port() as port:
        problem = refusal(job, "--nnodes", "1", "--rdzv-endpoint", f"127.0.0.1:{port}",
                          "--rdzv-conf", "is_host=1", str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E031"


def test_a_foreign_program_is_not_taken_for_the_master(job: Job) -> None:
    with foreign_port() as port:
        problem = refusal(job, "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}",
                          str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E031"
    assert "not a job of yours" in problem["cause"]


def test_an_open_address_without_encryption(job: Job) -> None:
    address = next((info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)
                    if not info[4][0].startswith("127.")), None)
    if address is None or ":" in address:
        pytest.skip("this host has no address beside loopback")
    problem = refusal(job, "--nnodes", "2", "--rdzv-endpoint", f"{address}:29411",
                      str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E101"


def test_a_wrong_token_is_refused_and_nothing_is_touched(job: Job) -> None:
    job.be_patient().start_steps(TWO, steps=100000)
    before = job.until_stepping(2, beyond=1)
    token = job.run_dir / "token"
    right = token.read_text()
    token.write_text("0" * 64 + "\n")
    refused = job.command("status", "--json", "--job", str(job.run_dir))
    assert refused.returncode == 4, refused
    token.write_text(right)
    after = job.until_stepping(2, beyond=before[0]["step"] + 5)
    assert {rank["pid"] for rank in after.values()} == {rank["pid"] for rank in before.values()}


def test_a_refusal_of_the_past_is_forgotten(job: Job) -> None:
    job.start_steps(TWO, steps=100000)
    job.until_stepping(2)
    # As an agent leaves it that the master would not have.
    problem = job.run_dir / "nodes" / "node0" / "problem.json"
    problem.write_text('{"code": "PL-E036", "message": "of yesterday"}')
    os.kill(job.agent_pid("node0"), signal.SIGKILL)
    eventually(lambda: not problem.exists() or None, "the next agent forgets it")


def test_a_full_journal_disk_stops_no_rank(job: Job) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for a small tmpfs")
    job.run_dir.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(job.run_dir)],
                   check=True)
    # If its first master ran for less than five seconds, the launcher gives up after five that end
    # at once. This test may be slow to make room for them.
    job.be_patient().env |= {"PACELINE_TIMERS_RESPAWN_DELAY": "2s",
                             "PACELINE_TIMERS_RESPAWN_DELAY_MAX": "20s"}
    try:
        job.start_steps(TWO, steps=100000)
        before = job.until_stepping(2, beyond=3)
        with open(job.run_dir / "filler", "wb") as filler:
            try:
                while True:
                    filler.write(b"x" * 65536)
                    filler.flush()
            except OSError:
                pass
        os.kill(job.card["master"]["pid"], signal.SIGKILL)
        after = eventually(lambda: all(os.path.exists(f"/proc/{rank['pid']}")
                                       for rank in before.values()), "ranks run on")
        assert after
        (job.run_dir / "filler").unlink()
        job.until_stepping(2, beyond=before[0]["step"] + 20)
    finally:
        job.end()
        subprocess.run(["umount", "-l", str(job.run_dir)], check=True)


def test_a_host_without_tls_is_told_that_the_job_has_it(make_job: Callable[..., Job]) -> None:
    first, second = make_job("first"), make_job("second")
    endpoint = f"127.0.0.1:{free_port()}"
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", endpoint]
    first.start_steps([*flags, "--tls", "--rdzv-conf", "is_host=1"])
    eventually(first.status, "its master answers", job=first)
    token = ["--token-file", str(first.run_dir / "token")]
    problem = refusal(second, *flags, "--rdzv-conf", "is_host=0", *token, str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E105" and problem["where"] == endpoint, problem
    assert "--tls" in problem["cause"] and "--join" in problem["fix"], problem


def test_a_host_with_tls_is_told_that_the_job_has_none(make_job: Callable[..., Job]) -> None:
    first, second = make_job("first"), make_job("second")
    endpoint = f"127.0.0.1:{free_port()}"
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", endpoint]
    first.start_steps([*flags, "--rdzv-conf", "is_host=1"])
    eventually(first.status, "its master answers", job=first)
    token = (first.run_dir / "token").read_text().strip()
    join = ["--join", f"paceline-join:v1:{endpoint}:{'a' * 64}:{token}"]
    problem = refusal(second, *flags, *join, str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E105" and problem["where"] == endpoint, problem
    assert "--tls" in problem["fix"], problem


def test_a_program_that_cannot_be_started_is_no_failure_of_the_script(job: Job) -> None:
    program = job.directory / "program"
    program.write_text("#!/nowhere/interpreter\n")
    program.chmod(0o755)
    job.start([*TWO, "--no-python"], [str(program)])
    assert job.wait() == 1
    words = job.stderr.partition("error[PL-E065]: the worker processes could not be started")[2]
    assert str(program) in words and "No such file" in words, job.stderr
    assert all(part in words for part in ("where", "why", "fix", "starter.log")), words
    assert "your script fails" not in job.stderr


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    subprocess.run(["python3", "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return str(tmp_path / "bare/bin/python")


def test_an_interpreter_without_the_package(job: Job, bare_python: str) -> None:
    job.env = {**job.env, "PYTHON_EXEC": bare_python, "PYTHONPATH": ""}
    problem = refusal(job, *TWO, str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E009"
    assert problem["where"] == bare_python


def test_the_interpreter_of_an_environment_that_cannot_run(
        job: Job, bare_python: str) -> None:
    """No other interpreter takes its place, although PATH has one."""
    python = Path(bare_python)
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    job.env = {**job.env, "PYTHON_EXEC": bare_python}
    problem = refusal(job, *TWO, str(SCRIPTS / "steps.py"))
    assert problem["code"] == "PL-E009"
    assert bare_python in problem["message"] and problem["where"] == "PYTHON_EXEC"
    assert problem["cause"] == "it leads to /nowhere/python3.11, which does not exist"


def test_a_module_to_load_ahead_that_is_not_there(job: Job, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/sub.py").write_text("raise SystemExit('it was imported')\n")
    job.env = {**job.env, "PYTHONPATH": str(tmp_path)}
    for name in ("nosuch", "here.nosuch", "json.nosuch"):
        problem = refusal(job, *TWO, "--preload", f"os.path,here.sub,{name}",
                          str(SCRIPTS / "steps.py"))
        assert problem["code"] == "PL-E003"
        assert name in problem["message"] and "--preload" in problem["where"]
    assert not job.run_dir.exists()


def test_the_simulator_refuses_in_four_parts(job: Job) -> None:
    for words in (["--seeds", "0"], ["--fault", "rain"], ["--leases", "--without", "rain"]):
        done = job.command("sim", *words)
        assert done.returncode == 2 and not done.stdout, done
        assert "error[PL-E003]" in done.stderr
        assert all(f"\n  {part} " in done.stderr for part in ("where", "why", "fix")), done.stderr


def test_a_resumed_job_keeps_its_own_interpreter(job: Job, bare_python: str) -> None:
    job.be_patient().start_steps(TWO, "--hold", "50", steps=100)
    job.until_stepping(2)
    assert job.launcher is not None
    job.launcher.kill()
    job.launcher.wait()
    job.env = {**job.env, "PYTHON_EXEC": bare_python, "PYTHONPATH": ""}
    job.start(["--resume"], [])
    job.until_watched()
    job.let_go()
    assert job.wait() == 0, job.stderr
