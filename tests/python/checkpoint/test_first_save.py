"""The slots are filled before the first save, and given back if there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from paceline._checkpoint import slots
from paceline._state.first_steps import bytes_of
from paceline.torch import Checkpointer

pytestmark = pytest.mark.usefixtures("own_keeper")

ELEMENTS = 1 << 20  # of the only parameter, 4 bytes each


def training() -> tuple[torch.nn.Linear, torch.optim.Optimizer, Callable[[], None]]:
    model = torch.nn.Linear(ELEMENTS, 1, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model.weight.grad = torch.zeros_like(model.weight)
        optimizer.step()

    return model, optimizer, step


def until_filled() -> None:
    for thread in list(slots._reserving):
        thread.join()


def saver_of(ckpt: Checkpointer) -> slots.Saver | None:
    return ckpt._slots._saver


def arena_of(ckpt: Checkpointer) -> Path:
    return Path(str(ckpt._link.opened["arena"]))


def test_an_optimizer_counts_with_its_parameters_and_its_state() -> None:
    _model, optimizer, step = training()
    before = bytes_of(optimizer)
    step()
    assert 4 * ELEMENTS <= before < 4 * ELEMENTS + 4096
    assert 12 * ELEMENTS <= bytes_of(optimizer) < 12 * ELEMENTS + 4096


def test_without_restore_the_first_steps_of_the_optimizer_fill_the_slots(tmp_path: Path) -> None:
    model, optimizer, step = training()
    with Checkpointer(tmp_path / "c") as ckpt:
        step()
        assert saver_of(ckpt) is None, "another optimizer may follow"
        step()
        until_filled()
        filled = saver_of(ckpt)
        assert filled is not None
        assert filled.reserved_slots == 3
        ckpt.save(0, {"model": model, "optimizer": optimizer})
        assert saver_of(ckpt) is filled, "the first save found its size"


def test_an_optimizer_that_keeps_more_than_expected_gets_larger_slots(tmp_path: Path) -> None:
    model, optimizer, step = training()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"weight": model.weight.detach()})
        until_filled()
        expected = saver_of(ckpt)
        assert expected is not None
        for _ in range(2):
            step()
        until_filled()
        larger = saver_of(ckpt)
        assert larger is not None
        assert larger.image_bytes_max > 2 * expected.image_bytes_max
        ckpt.save(0, {"model": model, "optimizer": optimizer})
        assert saver_of(ckpt) is larger


def test_room_for_more_than_is_saved_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_WASTE_BYTES", 0)
    model, _optimizer, step = training()
    with Checkpointer(tmp_path / "c") as ckpt:
        for _ in range(2):
            step()
        until_filled()
        ckpt.save(0, {"model": model})
        until_filled()
        used = os.stat(arena_of(ckpt)).st_blocks * 512
        assert used < 3 * 4 * ELEMENTS + (12 << 20)


def test_a_job_that_never_saves_gives_the_memory_back(tmp_path: Path) -> None:
    model, _optimizer, _step = training()
    ckpt = Checkpointer(tmp_path / "c")
    ckpt.restore({"model": model})
    until_filled()
    arena = arena_of(ckpt)
    assert arena.exists()
    ckpt.close()
    assert not arena.exists()


def test_a_checkpointer_that_is_dropped_is_not_kept_by_the_hook(tmp_path: Path) -> None:
    _model, _optimizer, step = training()
    ckpt = Checkpointer(tmp_path / "c")
    hook = ckpt._first_steps
    ckpt._free()
    del ckpt
    for _ in range(2):
        step()
    assert hook._is_told
