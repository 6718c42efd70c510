"""Annotations of a script for its plan: modules that are whole, divided, or a stage.

    with parallel.replicate():
        self.body = Body()                       # these modules are whole on each rank
    with parallel.split(2):
        self.head = nn.Linear(768, 1_000_000)    # two ranks share it
    parallel.assign(model.layers[:8], parallel.stage())   # an existing model

A hook of torch binds a module to the scope when the module registers its first parameter.
Annotations limit the search; everything else stays free. Without `parallelize`, a model with
annotations runs in one process as any other.
"""

import inspect
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, Self, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from paceline._base import arguments
from paceline.errors import ScriptLine
from paceline.parallel.errors import PlanError

Kind = Literal["replicate", "split", "stage"]

_PART, _STAGE = "_paceline_part", "_paceline_stage"
_numbers = count()
_OWN = tuple(os.path.dirname(one) + os.sep for one in (torch.__file__, __file__))
_open: dict[int, "list[_Open]"] = {}
"""The scopes that each thread is in."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One annotation: a context for modules that are built, or an argument of `assign`."""

    kind: Kind
    devices: int | None
    place: ScriptLine
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def told(self) -> str:
        """The annotation as the script has it: `"split(2)"`."""
        return f"{self.kind}({'' if self.devices is None else self.devices})"

    @property
    def is_stage(self) -> bool:
        return self.kind == "stage" or (self.kind == "replicate" and self.devices is not None)

    def __deepcopy__(self, _: object) -> Self:
        return self  # a copy of a module has the same scope

    def __enter__(self) -> Self:
        thread = threading.get_ident()
        stack = _open.setdefault(thread, [])
        for outer in stack:
            _must_not_nest(outer.scope, self)

        def built(module: nn.Module, _: str, __: object) -> None:
            if threading.get_ident() == thread:
                one.is_used = True
                _bind(module, self, is_again=True)

        one = _Open(self, register_module_parameter_registration_hook(built))
        stack.append(one)
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        thread = threading.get_ident()
        one = _open[thread].pop()
        one.hook.remove()
        if not _open[thread]:
            del _open[thread]
        is_needed = self.is_stage or self.kind == "split"
        if is_needed and not (failed or one.is_used):
            raise PlanError(
                what=f"{self.told} has no modules",
                where=self.place,
                why="no module got its first parameter inside the with block",
                fix=f"make the modules inside it, or parallel.assign(module, parallel.{self.told})",
            )


@dataclass(slots=True)
class _Open:
    """A scope that a thread is in, and the hook that binds modules to it."""

    scope: Scope
    hook: Any
    is_used: bool = False


def replicate(devices: int | None = None) -> Scope:
    """No rank divides these modules: `with parallel.replicate(): self.body = Body()`.

    Args:
        devices: the modules are a stage of the plan with this many replicas. None: the modules may
            be in any stage, or in several.

    Raises:
        ArgumentError: `devices` is not a whole number above 0.
    """
    if devices is not None:
        arguments.count("parallel.replicate", "devices", devices)
    return _made("replicate", devices)


def split(devices: int) -> Scope:
    """Several ranks share these modules: `with parallel.split(2): self.head = nn.Linear(…)`.

    An `nn.Linear` is divided by columns, an `nn.Embedding` by the vocabulary.

    Args:
        devices: the number of ranks that share them. It must divide the columns or the vocabulary.

    Raises:
        ArgumentError: `devices` is not a whole number above 0.
    """
    arguments.count("parallel.split", "devices", devices)
    return _made("split", devices)


def stage() -> Scope:
    """These modules are one stage of the pipeline: `parallel.assign(layers[:8], stage())`."""
    return _made("stage", None)


def assign(modules: nn.Module | list[Any] | tuple[Any, ...], scope: Scope) -> None:
    """Annotate existing modules: `parallel.assign(model.layers[:8], parallel.stage())`.

    Args:
        modules: a module or several; modules inside of them are included.
        scope: the result of `replicate`, `split` or `stage`.

    Raises:
        ArgumentError: an argument has a wrong type.
        PlanError: a module has an annotation already, or cannot be divided in this way.
    """
    if not isinstance(scope, Scope):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.refuse("parallel.assign", "scope", scope, "one of replicate, split, stage",
                               "parallel.assign(model.layers[:8], parallel.stage())")  # fmt: skip
    for root in modules if isinstance(modules, (list, tuple)) else [modules]:
        if not isinstance(root, nn.Module):
            raise arguments.refuse("parallel.assign", "modules", root, "a module, or several",
                                   "parallel.assign(model.head, parallel.split(2))")  # fmt: skip
        for module in root.modules():
            if any(True for _ in module.parameters(recurse=False)) or scope.is_stage:
                _bind(module, scope, is_again=False)


def part_of(module: nn.Module) -> Scope | None:
    """The `replicate` or `split` scope of the module, or None."""
    return cast("Scope | None", vars(module).get(_PART))


def stage_of(module: nn.Module) -> Scope | None:
    return cast("Scope | None", vars(module).get(_STAGE))


def _made(kind: Kind, devices: int | None) -> Scope:
    return Scope(kind, devices, _caller())


def _line_in(scope: Scope) -> ScriptLine:
    """The running line: the innermost one in the scope's own file, if there is
    one.

    A scope may build modules of a library, whose lines mean nothing to the script's author.
    """
    for frame in _frames():
        if frame.f_code.co_filename == scope.place.file:
            return ScriptLine(scope.place.file, frame.f_lineno)
    return _caller()


def _caller() -> ScriptLine:
    """The line of paceline's caller. Frames of torch that build modules are skipped."""
    for frame in _frames():
        if not frame.f_code.co_filename.startswith(_OWN):
            return ScriptLine(frame.f_code.co_filename, frame.f_lineno)
    return ScriptLine("the script", 0)


def _frames() -> Iterator[Any]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _must_not_nest(outer: Scope, inner: Scope) -> None:
    """Raise if scopes are nested. Each module has one strategy, but a stage may have divided
    modules.
    """
    if outer.kind == "stage" and not inner.is_stage:
        return
    raise PlanError(
        what=f"{inner.told} is within {outer.told}",
        where=inner.place,
        why=f"a module has one strategy, and {outer.told} of {outer.place} is still open",
        fix="one scope after the other",
    )


def _bind(module: nn.Module, scope: Scope, *, is_again: bool) -> None:
    """Stores the scope in the module. The scope in which it was built has priority over later
    ones.
    """
    keys = ([_STAGE] if scope.is_stage else []) + ([_PART] if scope.kind != "stage" else [])
    for key in keys:
        known = cast("Scope | None", vars(module).get(key))
        if known is None:
            if scope.kind == "split":
                _must_divide(module, scope)
            vars(module)[key] = scope
        elif known is not scope and not is_again:
            raise PlanError(
                what=f"{type(module).__qualname__} has two annotations",
                where=_line_in(scope),
                why=f"{known.told} of {known.place} has it already",
                fix="one annotation for each module",
            )


def _must_divide(module: nn.Module, scope: Scope) -> None:
    kind, devices = type(module).__qualname__, scope.devices or 1
    if not isinstance(module, (nn.Linear, nn.Embedding)):
        raise PlanError(
            what=f"{kind} cannot be split",
            where=_line_in(scope),
            why=f"{scope.told} divides Linear by columns and Embedding by the vocabulary",
            fix=f"build {kind} outside of split, where it is whole on each rank",
        )
    is_linear = isinstance(module, nn.Linear)
    size = module.out_features if is_linear else module.num_embeddings
    if size % devices:
        name = "columns" if is_linear else "words"
        raise PlanError(
            what=f"{kind} cannot be split over {devices} ranks",
            where=_line_in(scope),
            why=f"it has {size} {name}, and {devices} does not divide them",
            fix=f"{size + devices - size % devices} {name}, or split over another number",
        )
