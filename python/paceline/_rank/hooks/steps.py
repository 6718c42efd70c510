"""Counts training steps in an unmodified script, by torch's global optimizer hooks.

A training step ends when an optimizer steps that has already stepped in it. So a script with
several optimizers counts one step an iteration, optimizers may alternate for thousands of steps,
and no optimizer has to be the main one. If a subclass's `step` calls `super().step()`, the hooks
nest, and only the outermost call counts.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from paceline._rank.hooks.on_import import when_imported

_MODULE = "torch.optim.optimizer"
# A script may make a new optimizer every iteration. Forgetting one costs one step of the count.
_OPTIMIZERS_MAX = 4096


Hook = Callable[[object, object, object], None]


def step_hooks(
    report: Callable[[], None],
    first: Callable[[], None] | None = None,
    began_at: Callable[[int], None] | None = None,
) -> tuple[Hook, Hook]:
    """The two hooks, before and after a step: `before, after = step_hooks(session.count_step)`.

    `began_at` gets the optimizer's own step count before this attempt's first step, if it has one:
    a script that loads its optimizer's state continues from there.

    The hooks run in every optimizer step, so they are closures over plain lists. A class would take
    twice the time.
    """
    # id of the optimizer → [iteration of its last step, calls of step that have not ended]
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
            # Reset to 1, because an earlier step may have ended with an exception.
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
    """The optimizer's own step count; 0 if it has none."""
    try:
        for state in optimizer.state.values():
            if "step" in state:
                return int(state["step"])
    except Exception:  # the state of a script's own optimizer may be anything
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
    """Call `report` after every training step and `first` after the first one.

    Begins as soon as torch is imported. `began_at`: see `step_hooks`.

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
