"""Rules, alerts and a real scrape. Only `make test-prometheus` runs them: it sets
PACELINE_PROMETHEUS_TESTS."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from job import ROOT, Job, end_shared_starters

UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
collect_ignore_glob = [] if os.environ.get("PACELINE_PROMETHEUS_TESTS") == "1" else ["test_*.py"]


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"PROMETHEUS NOT TESTED: there is no {name}: tools/setup.sh prometheus")
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    return program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    return program("prometheus")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    Job.made.clear()
    made = Job(tmp_path)
    yield made
    orphans = made.end()
    made.forget_memory()
    end_shared_starters()
    assert not orphans, f"processes that outlived their job: {orphans}"
