"""Reads the step at which a Trainer of Hugging Face or Lightning goes on after its load.

An optimizer such as SGD does not count its steps, but its Trainer does, and its checkpoint holds
that count.
"""

import functools
from collections.abc import Callable
from typing import Any

from paceline._rank.hooks.on_import import when_imported

# Lightning is published under two names.
_LIGHTNING = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")


def watch_trainers(goes_on: Callable[[int], None]) -> None:
    """Call `goes_on(step)` each time that a Trainer begins to train: `watch_trainers(noted.set)`.

    `step` is the number of steps that were done before, 0 in a training that begins anew.
    """

    def watch_transformers(module: Any) -> None:
        def step_of(_handler: Any, _args: Any, state: Any, *_rest: Any, **_named: Any) -> Any:
            return state.global_step

        _before(getattr(module, "CallbackHandler", None), "on_train_begin", step_of, goes_on)

    def watch_lightning(module: Any) -> None:
        def step_of(loop: Any) -> Any:
            return loop.trainer.global_step

        _before(getattr(module, "_FitLoop", None), "on_run_start", step_of, goes_on)

    when_imported("transformers.trainer_callback", watch_transformers)
    for name in _LIGHTNING:
        when_imported(name, watch_lightning)


def _before(
    owner: Any, method: str, step_of: Callable[..., Any], goes_on: Callable[[int], None]
) -> None:
    """Before each call of `owner.method`, pass the step on. A release without it is left alone."""
    original = getattr(owner, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def calls(*args: Any, **kwargs: Any) -> Any:
        try:
            step = int(step_of(*args, **kwargs))
        except Exception:  # another release may have other arguments; training goes on
            step = -1
        if step >= 0:
            goes_on(step)
        return original(*args, **kwargs)

    setattr(owner, method, calls)
