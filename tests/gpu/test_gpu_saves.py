"""Saves of a state so large that its copy takes longer than the next optimizer's step."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from keepers import end_keepers

pytestmark = pytest.mark.usefixtures("own_keeper")

ELEMENTS = 1 << 28  # 1 GiB: its copy takes 20 ms, and a step one
SAVES = 5


@pytest.fixture
def own_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    runtime = Path("/tmp") / f"pl-gpu-{os.getpid()}"
    monkeypatch.setenv("PACELINE_RUNTIME_DIR", str(runtime))
    yield
    end_keepers(runtime)
    shutil.rmtree(runtime, ignore_errors=True)
    shutil.rmtree(tmp_path, ignore_errors=True)  # gigabytes


def nothing(*_: Any) -> None:
    pass


def save_and_step(
    directory: Path, device: str, fence: Callable[[Any], None] | None, *, beside: bool
) -> tuple[float, float, float]:
    """The last save is followed by a step at once. Gives the smallest and the largest weight of
    what was saved, and which weight all of them had."""
    import torch
    from paceline.torch import Checkpointer

    class Fenced(Checkpointer):
        def fence(self) -> None:
            super().fence() if fence is None else fence(self)

    weight = torch.nn.Parameter(torch.zeros(ELEMENTS, device=device))
    weight.grad = -torch.ones_like(weight)
    optimizer = torch.optim.SGD([weight], lr=1)
    model = torch.nn.ParameterDict({"weight": weight})
    state = {"model": model, "optimizer": optimizer}
    stream = torch.cuda.stream(torch.cuda.Stream()) if beside else nullcontext()
    with stream, Fenced(directory, overlap=True, every="1h") as ckpt:
        ckpt.restore(state)
        for step in range(SAVES):
            optimizer.step()
            ckpt.save(step, state).wait("memory")
            time.sleep(0.5)  # until the slots are pinned
        optimizer.step()
        ticket = ckpt.save(SAVES, state)
        optimizer.step()
        ticket.wait("memory")
        torch.cuda.synchronize()
        assert weight.min() == weight.max() == SAVES + 2
        assert ckpt.restore(state) == SAVES + 1
        return weight.min().item(), weight.max().item(), SAVES + 1


@pytest.mark.parametrize("beside", [False, True], ids=["default stream", "stream"])
def test_a_step_behind_a_save_waits_for_its_copy(
    gpu: str, tmp_path: Path, beside: bool
) -> None:
    smallest, largest, saved = save_and_step(tmp_path / "c", gpu, None, beside=beside)
    assert smallest == largest == saved


def test_without_a_fence_it_does_not(gpu: str, tmp_path: Path) -> None:
    """So the test before can fail."""
    _smallest, largest, saved = save_and_step(tmp_path / "c", gpu, nothing, beside=False)
    assert largest == saved + 1
