"""The real TensorFlow. Only `make test-tf` runs these tests: it sets PACELINE_TF_TESTS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from job import ROOT, Job

BIN = Path(os.environ.get("PACELINE_TF_BIN", ROOT / "build" / "tf" / "bin"))
collect_ignore_glob = [] if os.environ.get("PACELINE_TF_TESTS") == "1" else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _tensorflow() -> None:
    """The binary beside TensorFlow's interpreter, so that tasks run with that interpreter."""
    ask = "import tensorflow; print(tensorflow.__version__)"
    try:
        done = subprocess.run([BIN / "python", "-c", ask], capture_output=True, text=True,
                              check=False)
    except OSError as error:
        pytest.skip(f"TENSORFLOW NOT TESTED: {error}: tools/setup.sh tf")
    if done.stdout.strip() != "2.15.1":
        pytest.skip(f"TENSORFLOW NOT TESTED: 2.15.1 cannot be imported: {done.stderr[-300:]}")
    os.environ["PACELINE_BIN"] = str(BIN / "paceline")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    Job.made.clear()
    made = Job(tmp_path, is_alone=True, env={"TF_CPP_MIN_LOG_LEVEL": "2"})
    yield made
    orphans = made.end()
    assert not orphans, f"processes that outlived their job: {orphans}"
