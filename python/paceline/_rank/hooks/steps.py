"""Counts training steps in an unmodified script, by torch's global optimizer hooks.

A step of the training is over when an optimizer steps that has already stepped in it. So a script
with several optimizers counts once an iteration, optimizers may take turns for thousands of steps,
and nothing depends on which of them is the main one. A subclass whose `step` calls `super().step()`
makes the hooks nest: only the outermost counts.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from paceline._rank.hooks.on_import import when_imported

_MODULE = "torch.optim.optimizer"
# A script may make a new optimizer every iteration; forgetting is harmless, it costs one step.
_OPTIMIZERS_MAX = 4096


Hook = Callable[[object, object, object], None]


def step_hooks(
    report: Callable[[], None],
    first: Callable[[], None] | None = None,
    began_at: Callable[[int], None] | None = None,
) -> tuple[Hook, Hook]:
    """The two hooks, before and after a step: `before, after = step_hooks(session.count_step)`.

    `began_at` gets the optimizer's own step before this attempt's first, when the optimizer has
    one: a script that loads its optimizer's state goes on from there.

    They run in every step of every optimizer, so they are closures over plain lists: a class would
    take twice the time.
    """
    # optimizer's id → [iteration of its last step, calls of step that have not ended]
    optimizers: dict[int, list[int]] = {}
    find = optimizers.get
    iteration = 0

    def before(optimizer: object, _args: object, _kwargs: object) -> None:
        state = find(id(optimizer))
        if state is None:
            if len(optimizers) >= _OPTIMIZERS_MAX:
                optimizers.clear()
            optimizers[id(optimizer)] = [0, 1]
        elif state[1] and _is_nested(optimizer):
            state[1] += 1
        else:
            # Also when a former step ended by an exception and so left its call open.
            state[1] = 1

    def after(optimizer: object, _args: object, _kwargs: object) -> None:
        nonlocal iteration, first, began_at
        state = find(id(optimizer))
        if state is None:
            return
        depth = state[1] = state[1] - 1
        if depth:
            return
        if state[0] == iteration:
            iteration += 1
            if began_at is not None:
                then_at, began_at = began_at, None
                own = _own_step(optimizer)
                if own > 0:
                    then_at(own - 1)
            report()
            if first is not None:
                then, first = first, None
                then()
        state[0] = iteration

    return before, after


def _own_step(optimizer: Any) -> int:
    """How many steps the optimizer has made by its own count; 0: it does not count."""
    try:
        for state in optimizer.state.values():
            if "step" in state:
                return int(state["step"])
    except Exception:  # an optimizer of the script's own: its state may be anything
        return 0
    return 0


def _is_nested(optimizer: object) -> bool:
    """Whether two calls of torch's step wrapper for `optimizer` are on the stack."""
    wrapper: CodeType | None = None
    found = 0
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if wrapper is None:
            wrapper = frame.f_code
        if frame.f_code is wrapper and frame.f_locals.get("self") is optimizer:
            found += 1
            if found == 2:
                return True
        frame = frame.f_back
    return False


def watch_steps(
    report: Callable[[], None],
    installed: Callable[[], None],
    *,
    first: Callable[[], None] | None = None,
    began_at: Callable[[int], None] | None = None,
) -> None:
    """Call `report` after every training step, and `first` after the first, once torch is there.

    `began_at`: see `step_hooks`.

    Example: `watch_steps(session.count_step, session.hook_installed)`.
    """
    before, after = step_hooks(report, first, began_at)

    def then(module: ModuleType) -> None:
        pre: Callable[[Any], object] = module.register_optimizer_step_pre_hook
        post: Callable[[Any], object] = module.register_optimizer_step_post_hook
        pre(before)
        post(after)
        installed()

    when_imported(_MODULE, then)
