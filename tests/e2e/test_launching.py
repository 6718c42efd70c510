"""Ways to start a job that people know from torchrun: log folders, ports, stdin, error files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from free_ports import free_port
from job import DEADLINE_S, GRACE_S, Job, binary, eventually

ONE = ["--standalone", "--nproc-per-node", "1"]


def write(job: Job, text: str) -> list[str]:
    script = job.directory / "script.py"
    script.write_text(text)
    return [str(script)]


@pytest.mark.parametrize("named", ["logs", "./logs", "a/b"])
def test_a_relative_log_dir_is_where_it_was_typed(job: Job, named: str) -> None:
    job.start([*ONE, "--log-dir", named], write(job, "print('written')\n"))
    assert job.wait() == 0, job.stderr
    log = job.directory / named / job.card["id"] / "node0" / "g1" / "rank0.out"
    assert log.read_text() == "written\n"
    assert "written" in job.command("logs", "--job", str(job.run_dir)).stdout


def test_jobs_that_share_a_log_dir_do_not_touch_each_other(make_job: Callable[..., Job]) -> None:
    first, second = make_job("first"), make_job("second")
    first.start([*ONE, "--log-dir", "logs"], write(first, "print('yesterday')\n"))
    assert first.wait() == 0, first.stderr
    old = first.directory / "logs" / first.card["id"] / "node0"
    for number in range(1000, 1025):
        (old / f"g{number}").mkdir()
    script = ("import os, signal\nprint('today')\n"
              "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
              "    os.kill(os.getpid(), signal.SIGKILL)\n")
    second.be_patient().start([*ONE, "--log-dir", "logs"], write(second, script))
    assert second.wait() == 0, second.stderr
    assert "yesterday" not in second.stdout
    assert second.stdout.count("today") == 2
    assert len(list(old.iterdir())) == 26
    assert (old / "g1" / "rank0.out").read_text() == "yesterday\n"


@pytest.mark.parametrize("method", ["env://", "tcp://localhost:{port}"])
def test_ranks_see_the_master_port_that_was_given(job: Job, method: str) -> None:
    """One group a script: a rank that begins a second one may still reach the first one's store,
    which rank 0 is about to end, and torch waits there."""
    port = free_port()
    script = write(job, (
        "import os, torch.distributed as dist\n"
        "print('port', os.environ['MASTER_PORT'])\n"
        f"dist.init_process_group('gloo', init_method='{method.format(port=port)}',\n"
        "    rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE']))\n"
        "print('sum', dist.get_world_size())\n"))
    job.be_patient().start(["--nproc-per-node", "2", "--master-addr", "127.0.0.1",
                            "--master-port", str(port)], script)
    assert job.wait() == 0, job.stderr
    assert f"port {port}" in job.stdout
    assert "sum 2" in job.stdout


def test_the_same_command_typed_twice_makes_two_nodes(make_job: Callable[..., Job]) -> None:
    first, second = make_job("first").be_patient(), make_job("second").be_patient()
    endpoint = f"127.0.0.1:{free_port()}"
    script = write(first, "from os import environ\n"
                          "print('rank', environ['RANK'], environ['WORLD_SIZE'])\n")
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
             "--rdzv-endpoint", endpoint]
    first.start(flags, script)
    eventually(first.status, "its master answers", job=first)
    second.start(flags, script)
    assert second.wait() == 0, second.stderr
    assert first.wait() == 0, first.stderr
    said = first.stdout + second.stdout
    assert "rank 0 2" in said and "rank 1 2" in said
    assert first.card["id"] == second.card["id"]
    names = first.card["nodes"] + second.card["nodes"]
    assert len(set(names)) == 2


@pytest.mark.parametrize("warm", ["on", "off"])
@pytest.mark.parametrize("count", [2, 6, 12])
def test_arguments_are_as_long_as_the_kernel_takes(job: Job, warm: str, count: int) -> None:
    arguments = ["x" * 120_000] * count
    script = write(job, "import sys\nprint('total', sum(map(len, sys.argv[1:])))\n")
    job.env["PACELINE_LAUNCH_WARM"] = warm
    job.start(ONE, [*script, *arguments])
    assert job.wait() == 0, job.stderr
    assert f"total {120_000 * count}" in job.stdout
    listed = json.loads(job.command("ps", "--all", "--json").stdout)["jobs"]
    mine = [one for one in listed if one["id"] == job.card["id"]]
    assert mine[0]["argv"][-count:] == arguments


def test_a_host_says_what_it_waits_for(make_job: Callable[..., Job]) -> None:
    """Two jobs that wait at the same time: one for its master, and one for its other node."""
    first, second = make_job("first"), make_job("second")
    nobody, endpoint = (f"127.0.0.1:{free_port()}" for _ in range(2))
    script = write(first, "")
    token = first.directory / "token"
    token.touch(0o600)
    token.write_text("a" * 64)
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--token-file", str(token)]
    second.start([*flags, "--rdzv-endpoint", nobody, "--rdzv-conf", "is_host=0"], script)
    first.start([*flags, "--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=1"], script)
    eventually(lambda: "waits for nodes: 1 of at least 2 are here" in first.stderr,
               "the host of the master says so", job=first)
    eventually(lambda: f"still waiting for the master at {nobody}: " in second.stderr,
               "the host that joins says so", job=second)


@pytest.mark.skipif(os.geteuid() != 0, reason="PID 1 NOT TESTED: a process namespace takes root")
def test_a_host_that_waits_as_pid_1_ends_by_sigterm(job: Job) -> None:
    """In a container `paceline run` is PID 1, to which the kernel passes no signal by itself."""
    token = job.directory / "token"
    token.touch(0o600)
    token.write_text("a" * 64)
    endpoint = f"127.0.0.1:{free_port()}"
    flags = ["--nnodes", "2", "--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=0",
             "--token-file", str(token)]
    job.start(flags, write(job, ""), ["unshare", "--pid", "--fork", "--kill-child"])
    eventually(lambda: "waiting for the master" in job.stderr, "it waits", job=job)
    assert job.launcher is not None
    children = Path(f"/proc/{job.launcher.pid}/task/{job.launcher.pid}/children")
    os.kill(int(children.read_text()), signal.SIGTERM)
    assert job.launcher.wait(timeout=GRACE_S) == 128 + signal.SIGTERM


def test_the_launchers_error_file_has_the_root_cause(job: Job) -> None:
    path = job.directory / "termination-log"
    job.env["TORCHELASTIC_ERROR_FILE"] = str(path)
    job.start([*ONE, "--max-restarts", "0"], write(job, "raise ValueError('bad batch')\n"))
    assert job.wait() == 1
    message = json.loads(path.read_text())["message"]
    assert "ValueError: bad batch" in message["message"]
    assert message["errorCode"] == 1
    assert "bad batch" in message["extraInfo"]["py_callstack"]


READS = "import sys\nprint('read', repr(sys.stdin.read()))\n"


def test_a_single_rank_reads_what_is_piped_in(job: Job) -> None:
    script = write(job, READS)
    command = [str(binary()), "run", "--run-dir", str(job.run_dir), *ONE, *script]
    done = subprocess.run(command, input="hello\n", env=job.env, cwd=job.directory, text=True,
                          capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "read 'hello\\n'" in done.stdout


def test_an_error_says_that_ranks_have_no_terminal(job: Job) -> None:
    job.start([*ONE, "--max-restarts", "0"], write(job, "input()\n"))
    assert job.wait() == 1
    assert "ranks have no terminal" in job.stderr


def test_unknown_logs_specs_are_refused(job: Job) -> None:
    job.start([*ONE, "--logs-specs", "theirs"], write(job, ""))
    assert job.wait() == 2
    assert "PL-E003" in job.stderr


def test_process_groups_at_one_address_one_after_the_other(job: Job) -> None:
    """The second one met the server of the first, which was about to end."""
    pytest.importorskip("torch")
    port = free_port()
    script = write(job, (
        "import os, torch, torch.distributed as dist\n"
        "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        "for turn in range(5):\n"
        f"    dist.init_process_group('gloo', init_method='tcp://localhost:{port}', rank=rank,\n"
        "        world_size=size)\n"
        "    ones = torch.ones(1)\n"
        "    dist.all_reduce(ones)\n"
        "    dist.barrier()\n"
        "    print('rank', rank, 'turn', turn, 'met', int(ones))\n"
        "    dist.destroy_process_group()\n"))
    job.be_patient().start(["--nproc-per-node", "2", "--max-restarts", "0", "--master-addr",
                            "localhost", "--master-port", str(port)], script)
    assert job.wait() == 0, job.stderr
    assert "rank 0 turn 4 met 2" in job.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: another user's processes need root")
@pytest.mark.parametrize("home", ["HOME=", "HOME=/nonexistent"])
def test_a_user_without_a_home_or_a_name(home: str) -> None:
    """As containers are started with a number for a user: `docker run --user 23456`."""
    other = ["setpriv", "--reuid=23456", "--regid=23456", "--clear-groups"]
    if subprocess.run([*other, "test", "-x", str(binary())], check=False).returncode != 0:
        pytest.skip("NOT RUN: this checkout cannot be read by other users")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        script = Path(directory, "script.py")
        script.write_text("import os\nprint('user', os.geteuid())\n")
        ended = subprocess.run(
            [*other, "env", "-u", "XDG_RUNTIME_DIR", "-u", "XDG_CACHE_HOME", "-u", "XDG_STATE_HOME",
             *(["-u", "HOME"] if home == "HOME=" else [home]), f"TMPDIR={directory}",
             f"PACELINE_RUNTIME_DIR={directory}/run", str(binary()), "run", *ONE, str(script)],
            cwd=directory, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "user 23456" in ended.stdout
