"""Fixtures of the Python tests. Their folders, by what a test is about:

checkpoint/    saving and restoring, keepers, storage places
commands/      `paceline` as a command: pages, torchrun's flags
data/          order, loaders, leases, sources
formats/       DCP, safetensors, exports and imports, hostile folders
integrations/  Lightning, transformers
parallel/      plans and training by them
rank/          what runs in a rank: records, phases, errors, the store
starter/       the starter, its protocol and its warm forks

Modules that several folders import stand beside this file, which puts them on the path.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keepers import end_keepers

sys.path.insert(0, str(Path(__file__).parent))


# A Checkpointer goes on without a file system that is silent for a second. That of a test answers,
# however late on a busy machine or after a slow fsync.
ANSWER_S = 60.0


@pytest.fixture(autouse=True)
def no_tables() -> Iterator[None]:
    """Tables of a test would let the loaders of all later tests in this process lease whole
    batches, in which one sample that cannot be read costs the others."""
    yield
    in_hand: Any = sys.modules.get("paceline._data.in_hand")
    if in_hand is not None:
        in_hand._is_wanted = False
        in_hand._leave_out = None


@pytest.fixture
def own_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder of this test; its keepers are ended, and what they left in memory."""
    runtime = Path("/tmp") / f"pl-ck-{os.getpid()}-{tmp_path.name[-12:]}"
    monkeypatch.setenv("PACELINE_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("PACELINE_CHECKPOINT_SOCKET", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    from paceline._storage import directory_id, storage_place

    monkeypatch.setattr(directory_id._Directory, "patience", ANSWER_S)
    monkeypatch.setattr(storage_place.make_directory, "__kwdefaults__", {"patience": ANSWER_S})
    yield
    end_keepers(runtime)
    shutil.rmtree(runtime, ignore_errors=True)
