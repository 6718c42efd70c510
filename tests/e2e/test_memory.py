"""A rank that the kernel kills for want of memory is told apart from one killed by somebody."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually, runtime_dir

pytestmark = pytest.mark.alone

TWO = ["--standalone", "--nproc-per-node", "2"]
LIMIT_BYTES = 512 << 20
V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


def own_group() -> tuple[Path, str, str]:
    """This process's memory group, the file of its limit and the one that takes members."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            mine = V1 / path.lstrip("/")
            return (mine if mine.exists() else V1), "memory.limit_in_bytes", "tasks"
    return V2, "memory.max", "cgroup.procs"


@pytest.fixture
def small_group() -> Iterator[Path]:
    parent, limit, _ = own_group()
    group = parent / f"paceline-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError as error:
        pytest.skip(f"OUT OF MEMORY NOT TESTED: no memory cgroup can be made here: {error}")
    yield group
    eventually(lambda: not (group / "cgroup.procs").read_text().strip() or None, "it is empty")
    group.rmdir()


def test_a_rank_out_of_memory_is_named(job: Job, small_group: Path) -> None:
    members = small_group / own_group()[2]
    inside = ["/bin/sh", "-c", f'echo $$ > "{members}" && exec "$@"', "sh"]
    script = job.steps_script(job.state, 30)
    # Whatever of the job waits for memory before the kernel ends the rank is not lost.
    job.be_patient().start(TWO, [*script, "--fail", "1:10:memory"], prefix=inside)
    assert job.wait() == 0, job.stderr
    (failed,) = job.events("rank_failed")
    assert "ran out of memory" in failed["sentence"]
    assert "rank 1" in failed["sentence"] and "step 9" in failed["sentence"]


def test_a_killed_rank_is_not_called_out_of_memory(job: Job) -> None:
    job.be_patient().start_steps(TWO, "--fail", "1:10:kill", steps=30)
    assert job.wait() == 0, job.stderr
    (failed,) = job.events("rank_failed")
    assert "SIGKILL" in failed["sentence"] and "memory" not in failed["sentence"]


@contextmanager
def ask_for_memory(path: Path) -> Iterator[None]:
    """The agent that listens there needs more than it may have, at once and not just when it
    happens to: it has to keep the beginnings of lines that never end."""
    with ExitStack() as open_ones:
        for _ in range(16):
            line = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            line.settimeout(1)
            with suppress(OSError):  # it may be gone by now
                line.connect(str(path))
                line.sendall(b"x" * 900_000)
        yield


def test_row_30_an_agent_that_ran_out_of_memory_costs_no_save(
        job: Job, small_group: Path) -> None:
    """A limit that is too tight for it, from one moment to the next: a new one goes on."""
    pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
    storage = job.directory / "ckpt"
    job.be_patient().start(TWO, [
        str(SCRIPTS / "flash.py"), "--checkpoint", str(storage), "--out", str(job.state),
        "--steps", "1000000", "--every", "25"])
    job.until_event("checkpoint_committed")
    agent = job.agent_pid("node0")
    (path,) = runtime_dir(job.directory).glob("checkpoints-*.sock")  # before a new agent binds it
    (small_group / "cgroup.procs").write_text(str(agent))
    (small_group / own_group()[1]).write_text(str(256 << 10))
    with ask_for_memory(path):
        eventually(lambda: job.agent_pid("node0") != agent, "a new agent", job=job)
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    assert len(job.events("world_formed")) == 1, "nobody was restarted"
    last = int((job.state / "end").read_text())
    assert job.events("checkpoint_committed")[-1]["step"] == last
    assert job.command("ckpt", "verify", str(storage)).returncode == 0
