from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hosts import Host, small_cluster
from job import Job, binary, end_shared_starters, runtime_dir


def missing_commands() -> str:
    """Commands that these tests need and the binary lacks."""
    try:
        program = str(binary())
    except FileNotFoundError as error:
        return str(error)
    lacking = [verb for verb in ("run", "status", "events")
               if subprocess.run([program, verb, "--help"], capture_output=True,
                                 check=False).returncode != 0]
    return f"{program} has no {', '.join(lacking)}" if lacking else ""


@pytest.fixture(scope="session", autouse=True)
def _whole_binary() -> None:
    if missing := missing_commands():
        pytest.skip(f"PROCESS-LEVEL TESTS NOT RUN: {missing}")


@pytest.fixture(scope="session", autouse=True)
def _shared_starters() -> Iterator[None]:
    yield
    end_shared_starters()


@pytest.fixture(autouse=True)
def _no_orphans(tmp_path: Path) -> Iterator[None]:
    """Whatever a test did to its jobs: when they are ended, nothing of them may live."""
    Job.made.clear()
    yield
    orphans = [found for found in [job.end() for job in Job.made] if found]
    for job in Job.made:
        job.forget_memory()
    shutil.rmtree(runtime_dir(tmp_path), ignore_errors=True)
    assert not orphans, f"processes that outlived their job: {orphans}"


@pytest.fixture
def make_job(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Job]:
    """With a runtime directory of its own where the test is marked `alone`."""
    is_alone = request.node.get_closest_marker("alone") is not None
    return lambda name="run": Job(tmp_path, name, is_alone=is_alone)


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    return make_job()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """host0-2, each with everything of its own."""
    with small_cluster(tmp_path) as made:
        yield made


@pytest.fixture
def v6_hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """The same with IPv6 alone."""
    with small_cluster(tmp_path, has_v4=False) as made:
        yield made
