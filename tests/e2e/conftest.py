from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from job import Job, binary, eventually, runtime_dir


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


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(name: str = "run") -> Job:
        jobs.append(Job(tmp_path, name))
        return jobs[-1]

    yield make
    for job in jobs:
        job.end()
    shutil.rmtree(runtime_dir(tmp_path), ignore_errors=True)


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Iterator[Job]:
    made = make_job()
    yield made
    ended = made.launcher is not None and made.launcher.poll() is not None
    if ended and (made.run_dir / "job.json").exists():
        # The job has ended by itself: nothing of it may live.
        eventually(lambda: not made.leftovers(), f"orphans: {made.leftovers()}", deadline_s=10)
