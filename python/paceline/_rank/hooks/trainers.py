"""Reads the step at which a Trainer of Hugging Face or Lightning goes on, and where it ends.

An optimizer such as SGD does not count its steps, but its Trainer does, and its checkpoint holds
that count.
"""

import functools
from collections.abc import Callable
from typing import Any

from paceline._rank.hooks.on_import import when_imported

# Lightning is published under two names.
_LIGHTNING = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")


def watch_trainers(goes_on: Callable[[int], None], ends_at: Callable[[int], None]) -> None:
    """Call both each time that a Trainer begins to train: `watch_trainers(began.set, end.set)`.

    `goes_on` gets the number of steps that were done before, 0 in a training that begins anew.
    `ends_at` gets the number of steps of the whole training, if the Trainer knows it.
    """

    def watch_transformers(module: Any) -> None:
        def step_of(_handler: Any, _args: Any, state: Any, *_rest: Any, **_named: Any) -> Any:
            return state.global_step

        def total_of(_handler: Any, _args: Any, state: Any, *_rest: Any, **_named: Any) -> Any:
            return state.max_steps

        owner = getattr(module, "CallbackHandler", None)
        _before(owner, "on_train_begin", total_of, ends_at)
        _before(owner, "on_train_begin", step_of, goes_on)

    def watch_lightning(module: Any) -> None:
        def step_of(loop: Any) -> Any:
            return loop.trainer.global_step

        def total_of(loop: Any) -> Any:
            return loop.trainer.estimated_stepping_batches  # infinite if only time ends it

        owner = getattr(module, "_FitLoop", None)
        _before(owner, "on_run_start", total_of, ends_at)
        _before(owner, "on_run_start", step_of, goes_on)

    when_imported("transformers.trainer_callback", watch_transformers)
    for name in _LIGHTNING:
        when_imported(name, watch_lightning)


def _before(
    owner: Any, method: str, steps_of: Callable[..., Any], take: Callable[[int], None]
) -> None:
    """Before each call of `owner.method`, pass the steps on. A release without it is left alone."""
    original = getattr(owner, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def calls(*args: Any, **kwargs: Any) -> Any:
        try:
            steps = int(steps_of(*args, **kwargs))
        except Exception:  # another release may have other arguments; training goes on
            steps = -1
        if steps >= 0:
            take(steps)
        return original(*args, **kwargs)

    setattr(owner, method, calls)
