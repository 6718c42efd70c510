"""Jobs with workers and table servers. `make test-ps` runs the long ones, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from job import Job, end_shared_starters


@pytest.fixture(scope="session", autouse=True)
def _starters() -> Iterator[None]:
    yield
    end_shared_starters()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    Job.made.clear()
    made = Job(tmp_path)
    yield made
    orphans = made.end()
    assert not orphans, f"processes that outlived their job: {orphans}"
