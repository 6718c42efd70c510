"""Detects a model's forward and its evaluation, without a hook on any module.

torch.compile would trace a hook on a module or a replaced `forward`: other guards, other graphs.
Copies and pickles of the module would contain the hook. So calls are seen at three points that
dynamo does not trace:

- `OptimizedModule.__call__`, which `torch.compile(model)` returns, is outside the traced code;
- `DistributedDataParallel.forward` and FSDP's are replaced until the first compilation begins,
  which puts the original ones back before anything is traced;
- the end of a read from a DataLoader.

For a model with neither wrapper nor DataLoader, only backward and optimizer steps are seen.
"""

import functools
import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any

from paceline._rank import flight
from paceline._rank.hooks.on_import import when_imported
from paceline._rank.phases import Phases

_WRAPPERS = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
)
_INNER = ("module", "_orig_mod", "_fsdp_wrapped_module")
_OWNED_MAX = 4096
_FIND_AFTER_STEPS = 20


class Model:
    """The module that is trained: `Model(phases).stepped(optimizer)` after each step."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._parameters: frozenset[int] = frozenset()
        self._steps = 0
        self._trained: weakref.ref[Any] | None = None
        self._owns: dict[int, tuple[weakref.ref[Any], bool]] = {}

    def stepped(self, optimizer: Any) -> None:
        """`optimizer` has stepped. The first optimizer that steps trains the model.

        The module is searched after 20 steps: the search takes 90 ms in a process with 335,000
        objects, which must not delay the start, and no hang is acted on before.
        """
        if self._steps > _FIND_AFTER_STEPS:
            return
        self._steps += 1
        if self._steps == 1:
            groups = optimizer.param_groups
            self._parameters = frozenset(id(p) for group in groups for p in group["params"])
        elif self._steps == _FIND_AFTER_STEPS:
            self._find()

    def _find(self) -> None:
        """Find the outermost module with the optimizer's parameters, and in it what it wraps."""
        owner = _outermost(self._parameters)
        if owner is not None:
            self._trained = weakref.ref(_innermost(owner))

    def is_evaluated(self) -> bool:
        """Whether that module is in eval mode. False until it is found.

        The innermost module decides. Lightning calls `eval()` of the wrapper before it validates,
        and afterwards sets only what is inside back to training.
        """
        module = None if self._trained is None else self._trained()
        return module is not None and not module.training

    def called(self, module: Any) -> None:
        """A wrapper's forward is called. Models that no optimizer trains are ignored."""
        if not self._parameters:
            if _innermost(module).training:
                self._phases.turn(flight.FORWARD)
        elif self._is_own(module):
            is_evaluated = not _innermost(module).training or self.is_evaluated()
            self._phases.turn(flight.EVALUATION if is_evaluated else flight.FORWARD)

    def _is_own(self, module: Any) -> bool:
        known = self._owns.get(id(module))
        if known is None or known[0]() is not module:
            if len(self._owns) >= _OWNED_MAX:
                self._owns.clear()
            known = (weakref.ref(module), _count_own(module, self._parameters) > 0)
            self._owns[id(module)] = known
        return known[1]


def _innermost(module: Any) -> Any:
    """What the module wraps, through all wrappers; the module itself if it is no wrapper."""
    while True:
        modules: dict[str, Any] = module.__dict__.get("_modules") or {}
        inner = next((modules[name] for name in _INNER if name in modules), None)
        if inner is None:
            return module
        module = inner


def _outermost(parameters: frozenset[int]) -> Any:
    """The outermost module with most of those parameters. None if there is none."""
    modules = _all_modules()
    inner: set[int] = set()
    for module in modules:
        inner.update(id(child) for child in (module.__dict__.get("_modules") or {}).values())
    best, best_count = None, 0
    for module in modules:
        count = 0 if id(module) in inner else _count_own(module, parameters)
        if count > best_count:
            best, best_count = module, count
    return best


def _all_modules() -> list[Any]:
    """All modules in this process."""
    torch: Any = sys.modules["torch"]
    objects = gc.get_objects()
    # Compare the type: isinstance would run code of proxy objects.
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.nn.Module)}
    return list(itertools.compress(objects, map(kinds.__contains__, map(type, objects))))


def _count_own(module: Any, parameters: frozenset[int]) -> int:
    try:
        return sum(id(parameter) in parameters for parameter in module.parameters())
    except Exception:  # a half-made module, or a class with an own __getattr__
        return 0


def watch_forward(model: Model, phases: Phases) -> None:
    """Record the calls of `model` from now on, and when torch compiles, once torch is there."""
    ours: list[tuple[Any, Any, Any]] = []  # class, original forward, our forward
    has_compiled = False

    def watch_wrapper(wrapper: Any) -> None:
        if not has_compiled:
            original = wrapper.forward
            forward = _after_call(model, original)
            ours.append((wrapper, original, forward))
            wrapper.forward = forward

    def compile_begins() -> None:
        nonlocal has_compiled
        has_compiled = True
        while ours:
            wrapper, original, forward = ours.pop()
            if wrapper.forward is forward:
                wrapper.forward = original

    for place, name in _WRAPPERS:
        when_imported(place, lambda module, name=name: watch_wrapper(getattr(module, name)))
    _watch_dynamo(model)
    _watch_compilation(phases, compile_begins)


def _after_call(model: Model, call: Any) -> Any:
    @functools.wraps(call)
    def calls(self: Any, *args: Any, **kwargs: Any) -> Any:
        model.called(self)
        return call(self, *args, **kwargs)

    return calls


def _watch_dynamo(model: Model) -> None:
    def leave_us_out(module: Any) -> None:
        # Our functions may run between two graphs. They must not be compiled.
        add = getattr(module, "add", None)
        if add is not None:
            add("paceline")

    def watch_compiled(module: Any) -> None:
        compiled = getattr(module, "OptimizedModule", None)
        if compiled is not None:
            compiled.__call__ = _after_call(model, compiled.__call__)

    when_imported("torch._dynamo.trace_rules", leave_us_out)
    when_imported("torch._dynamo.eval_frame", watch_compiled)


def _watch_compilation(phases: Phases, begins: Callable[[], None]) -> None:
    """Call `begins` before each compilation, and record it as a phase of its own."""
    before = flight.UNKNOWN

    def start(_arguments: object = None) -> None:
        nonlocal before
        begins()
        if phases.now != flight.COMPILE:
            before = phases.now
        phases.turn(flight.COMPILE)

    def end(_arguments: object = None) -> None:
        if phases.now == flight.COMPILE:
            phases.turn(before)

    def watch(module: Any) -> None:
        handler: Any = getattr(module, "callback_handler", None)
        if not hasattr(handler, "register_start_callback"):
            return  # an older torch
        clears = handler.clear

        def register() -> None:
            handler.register_start_callback(start)
            handler.register_end_callback(end)

        def clear() -> None:  # by torch._dynamo.reset()
            clears()
            register()

        handler.clear = clear
        register()

    when_imported("torch._dynamo.callback", watch)
