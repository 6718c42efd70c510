"""Tests on a GPU, from an installed wheel: `make test-gpu`, or pytest with PACELINE_BIN.

PACELINE_TEST_DEVICE=cpu runs those that can be run without a GPU: a try of the tests themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from job import Job, end_shared_starters

DEVICE = os.environ.get("PACELINE_TEST_DEVICE", "cuda")


def missing() -> str:
    """Why nothing can be tested on a GPU here; empty when it can."""
    if DEVICE == "cpu":
        return ""
    if not os.path.exists("/dev/nvidiactl"):
        return "there is no NVIDIA GPU here"
    import torch

    return "" if torch.cuda.is_available() else f"torch {torch.__version__} finds no GPU here"


@pytest.fixture(scope="session", autouse=True)
def _a_gpu() -> None:
    if why := missing():
        pytest.skip(f"NOT TESTED ON A GPU: {why}")


@pytest.fixture(scope="session", autouse=True)
def _shared_starters() -> Iterator[None]:
    yield
    end_shared_starters()


@pytest.fixture
def device() -> str:
    return DEVICE


@pytest.fixture
def gpu() -> str:
    """The device of a test that is about nothing without a GPU."""
    if DEVICE == "cpu":
        pytest.skip("NOT TESTED ON A GPU: PACELINE_TEST_DEVICE=cpu")
    return DEVICE


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[object]:
    """Jobs by name. When they are ended, nothing of them may live."""
    Job.made.clear()
    yield lambda name="run", env=None: Job(tmp_path, name, env)
    orphans = [found for found in [job.end() for job in Job.made] if found]
    for job in Job.made:
        job.forget_memory()
    assert not orphans, f"processes that outlived their job: {orphans}"
