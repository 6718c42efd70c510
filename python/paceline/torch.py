"""Counts training steps in an unmodified script, by torch's global optimizer hooks.

A step of the training is over when an optimizer steps that has already stepped in it. So a script
with several optimizers counts once an iteration, optimizers may take turns for thousands of steps,
and nothing depends on which of them is the main one. A subclass whose `step` calls `super().step()`
makes the hooks nest: only the outermost counts.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

_MODULE = "torch.optim.optimizer"
# A script may make a new optimizer every iteration; forgetting is harmless, it costs one step.
_OPTIMIZERS_MAX = 4096


class StepCounter:
    """The two hooks: `StepCounter(session.count_step)`."""

    def __init__(self, report: Callable[[], None], first: Callable[[], None] | None = None) -> None:
        self._report = report
        self._first = first
        self._iteration = 0
        self._stepped_in: dict[int, int] = {}  # optimizer's id → iteration of its last step
        self._open: dict[int, int] = {}  # optimizer's id → calls of step that have not ended

    def before(self, optimizer: object, _args: object, _kwargs: object) -> None:
        """Before any optimizer steps."""
        key = id(optimizer)
        depth = self._open.get(key, 0)
        # An exception in a former step leaves its call open: believe in nesting only if it can be
        # seen.
        if depth and not _is_nested(optimizer):
            depth = 0
        self._open[key] = depth + 1

    def after(self, optimizer: object, _args: object, _kwargs: object) -> None:
        """After any optimizer stepped."""
        key = id(optimizer)
        depth = self._open.pop(key, 1)
        if depth > 1:
            self._open[key] = depth - 1
            return
        last = self._stepped_in.get(key, 0)
        if last == self._iteration:
            self._iteration += 1
            self._report()
            if self._first is not None:
                first, self._first = self._first, None
                first()
        elif len(self._stepped_in) > _OPTIMIZERS_MAX:
            self._stepped_in.clear()
        self._stepped_in[key] = self._iteration


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


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader would, then calls back."""

    def __init__(self, inner: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._then(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for one module and is gone once it is found."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


def watch_steps(
    report: Callable[[], None],
    installed: Callable[[], None],
    *,
    first: Callable[[], None] | None = None,
) -> None:
    """Call `report` after every training step, and `first` after the first, once torch is there.

    Example: `watch_steps(session.count_step, session.hook_installed)`.
    """
    counter = StepCounter(report, first)

    def then(module: ModuleType) -> None:
        pre: Callable[[Any], object] = module.register_optimizer_step_pre_hook
        post: Callable[[Any], object] = module.register_optimizer_step_post_hook
        pre(counter.before)
        post(counter.after)
        installed()

    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        then(loaded)
    else:
        sys.meta_path.insert(0, _Finder(then))
