"""Fixtures of the Python tests: the agent's double, and small scripts in a folder of their own."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from keepers import end_keepers

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def own_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder of this test; its keepers are ended, and what they left in memory."""
    runtime = Path("/tmp") / f"pl-ck-{os.getpid()}-{tmp_path.name[-12:]}"
    monkeypatch.setenv("PACELINE_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("PACELINE_CHECKPOINT_SOCKET", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    yield
    end_keepers(runtime)
    shutil.rmtree(runtime, ignore_errors=True)
