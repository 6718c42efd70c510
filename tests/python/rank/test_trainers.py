"""What the hook reads of a Trainer when it begins to train, with stand-ins for its modules."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from paceline._rank.hooks.trainers import watch_trainers


class Told:
    def __init__(self) -> None:
        self.began: list[int] = []
        self.ends: list[int] = []
        watch_trainers(self.began.append, self.ends.append)


@pytest.mark.parametrize(("known", "ends"), [(500, [500]), (0, [0]), (-1, [])])
def test_transformers_tells_where_it_goes_on_and_ends(
    monkeypatch: pytest.MonkeyPatch, known: int, ends: list[int]
) -> None:
    module: Any = ModuleType("transformers.trainer_callback")

    class CallbackHandler:
        def on_train_begin(self, _args: object, _state: object, control: str) -> str:
            return control

    module.CallbackHandler = CallbackHandler
    monkeypatch.setitem(sys.modules, "transformers.trainer_callback", module)
    told = Told()
    state = SimpleNamespace(global_step=20, max_steps=known)
    assert CallbackHandler().on_train_begin(None, state, "goes on") == "goes on"
    assert (told.began, told.ends) == ([20], ends)


@pytest.mark.parametrize(("known", "ends"), [(500, [500]), (float("inf"), [])])
def test_lightning_tells_where_it_goes_on_and_ends(
    monkeypatch: pytest.MonkeyPatch, known: float, ends: list[int]
) -> None:
    name = "lightning.pytorch.loops.fit_loop"
    module: Any = ModuleType(name)

    class FitLoop:
        trainer = SimpleNamespace(global_step=20, estimated_stepping_batches=known)

        def on_run_start(self) -> str:
            return "runs"

    module._FitLoop = FitLoop
    monkeypatch.setitem(sys.modules, name, module)
    told = Told()
    assert FitLoop().on_run_start() == "runs"
    assert (told.began, told.ends) == ([20], ends)
