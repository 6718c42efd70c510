"""Frozen weights: written to storage once, in every checkpoint all the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from agent_double import wait_until
from dcp_alone import ALONE
from paceline.torch import Checkpointer, load
from small_training import Adapted, adapt, same
from torch.distributed import checkpoint as dcp

BINARY = Path(sys.executable).parent / "paceline"
pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]


def frozen_files(place: Path) -> list[Path]:
    """Of all checkpoints, the oldest first."""
    folders = sorted(place.glob("step-*"), key=lambda one: int(one.name.split("-")[1]))
    return [path for one in folders for path in one.glob("*-frozen.safetensors")]


def test_frozen_weights_are_written_once(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    torch.manual_seed(1)
    net = Adapted()
    optimizer = torch.optim.AdamW(net.adapter.parameters())
    state = {"model": net, "optimizer": optimizer}
    place = tmp_path / "c"
    with Checkpointer(place, every=1, keep=2) as ckpt:
        ckpt.restore(state)
        for step in range(4):
            adapt(net, optimizer)
            ckpt.save(step, state).wait("durable")
    # The keeper tidies after its answer, for longer than a close waits on a slow disk.
    wait_until(lambda: len(list(place.glob("step-*"))) == 2, "older ones are gone")
    second = frozen_files(place)[-1]
    wait_until(lambda: second.stat().st_nlink == 2, "their files are gone")
    assert [path.stat().st_ino for path in frozen_files(place)] == [second.stat().st_ino] * 2
    assert second.stat().st_size > 24_000_000
    (folder,) = place.glob("step-3-*")
    others = [path for path in folder.glob("*.safetensors") if path != second]
    assert sum(path.stat().st_size for path in others) < 5_000_000
    done = subprocess.run([BINARY, "ckpt", "verify", place], check=False)
    assert done.returncode == 0

    # Others read both files, by themselves and as one.
    tensors = load_file(second)
    assert set(tensors) == {"model.base.weight", "model.base.bias"}
    for path in others:
        tensors |= load_file(path)
    for key, value in net.state_dict().items():
        assert torch.equal(tensors[f"model.{key}"], value), key
    filled = {key: torch.zeros_like(value) for key, value in tensors.items()}
    dcp.load(filled, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), **ALONE)
    assert all(torch.equal(filled[key], tensors[key]) for key in tensors)

    out = tmp_path / "hf"
    subprocess.run([BINARY, "ckpt", "export", place, out, "--to", "hf"], check=True)
    exported = load_file(out / "model.safetensors")
    assert all(torch.equal(exported[key], value) for key, value in net.state_dict().items())


CHILD = """
import os, sys, torch
from pathlib import Path
from keepers import end_keepers
from paceline.torch import Checkpointer
from small_training import Adapted, adapt
torch.manual_seed(1)
net = Adapted()
optimizer = torch.optim.AdamW(net.adapter.parameters())
state = {"model": net, "optimizer": optimizer}
ckpt = Checkpointer(sys.argv[1], every=1_000_000)
ckpt.restore(state)
for step in range(3):
    adapt(net, optimizer)
    ckpt.save(step, state)
torch.save(net.state_dict(), sys.argv[2])
# It would bring the step to storage, and free the memory, if it outlived this process for long.
end_keepers(Path(os.environ["PACELINE_RUNTIME_DIR"]), keeps_memory=True)
os.kill(os.getpid(), 9)
"""


def test_they_come_back_from_memory(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    words = [sys.executable, "-c", CHILD, tmp_path / "c", tmp_path / "expected.pt"]
    assert subprocess.run(words, env=env, check=False).returncode == -9
    net = Adapted()
    optimizer = torch.optim.AdamW(net.adapter.parameters())
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore({"model": net, "optimizer": optimizer}) == 3
    assert "from memory" in ckpt.restored, ckpt.restored
    assert same(torch.load(tmp_path / "expected.pt", weights_only=True), dict(net.state_dict()))
    ckpt.close()


def test_they_come_back_from_storage(tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = Adapted()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(2, {"model": net})
    stored = Adapted()
    assert load(tmp_path / "c", {"model": stored}).step == 2
    assert same(net, stored)


def test_weights_that_are_trained_again_are_written_again(tmp_path: Path) -> None:
    """Also when they change without anybody's saying so."""
    net = Adapted()
    place = tmp_path / "c"
    with Checkpointer(place, every=1) as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(0, {"model": net}).wait("durable")
        with torch.no_grad():
            net.base.weight.fill_(3)
        ckpt.save(1, {"model": net}).wait("durable")
    first, second = frozen_files(place)
    assert first.stat().st_ino != second.stat().st_ino
    stored = Adapted()
    load(place, {"model": stored})
    assert stored.base.weight.eq(3).all()


def test_little_that_is_frozen_stays_with_the_rest(tmp_path: Path) -> None:
    net = torch.nn.Linear(100, 100)
    net.requires_grad_(False)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(0, {"model": net})
    assert not frozen_files(tmp_path / "c")
    (manifest,) = (tmp_path / "c").glob("step-*/MANIFEST.json")
    assert "frozen" not in json.loads(manifest.read_text())["ranks"][0]
