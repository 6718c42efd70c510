"""A rank that the kernel kills for want of memory is told apart from one killed by somebody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from job import Job, eventually

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
    job.start(TWO, [*script, "--fail", "1:10:memory"], prefix=inside)
    assert job.wait() == 0, job.stderr
    (failed,) = job.events("rank_failed")
    assert "ran out of memory" in failed["sentence"]
    assert "rank 1" in failed["sentence"] and "step 9" in failed["sentence"]


def test_a_killed_rank_is_not_called_out_of_memory(job: Job) -> None:
    job.start_steps(TWO, "--fail", "1:10:kill", steps=30)
    assert job.wait() == 0, job.stderr
    (failed,) = job.events("rank_failed")
    assert "SIGKILL" in failed["sentence"] and "memory" not in failed["sentence"]
