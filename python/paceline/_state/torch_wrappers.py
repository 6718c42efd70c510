"""Names of a module's tensors without the parts that wrappers add.

A wrapper holds one module, and neither adds nor changes tensors: DistributedDataParallel, what
torch.compile returns, activation checkpoints, FSDP1. Wrappers may be at every depth. The plain
names are those of `torch.distributed.checkpoint.state_dict.get_state_dict`.
"""

import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import cast

import torch
from torch.nn.parallel import DistributedDataParallel

from paceline._state.save_plan import SavePlan
from paceline._state.wrapper_marks import without_marks

# Module, class and attribute of the wrappers that torch may not have imported; whether their hooks
# remove the attribute from the names of a state_dict.
_WRAPPERS = (
    ("torch._dynamo.eval_frame", "OptimizedModule", "_orig_mod", False),
    ("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper",
     "_checkpoint_wrapped_module", True),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel",
     "_fsdp_wrapped_module", True),
)  # fmt: skip
_FSDP = "_fsdp_wrapped_module"


def _attribute(module: torch.nn.Module) -> tuple[str, bool]:
    """The attribute in which a wrapper holds its module, and whether its state_dict hides it.

    The attribute is "" if the module is no wrapper.
    """
    if isinstance(module, DistributedDataParallel):
        return "module", False
    for home, name, attribute, is_hidden in _WRAPPERS:
        kind = getattr(sys.modules.get(home), name, None)
        if isinstance(kind, type) and isinstance(module, kind):
            return attribute, is_hidden
    return "", False


def bare(module: torch.nn.Module, plan: SavePlan | None) -> torch.nn.Module:
    """The module inside wrappers. Not inside FSDP1, whose state_dict gathers the parameters."""
    while True:
        name, _is_hidden = _attribute(module)
        if not name or name == _FSDP:
            return module
        holder = module._modules  # pyright: ignore[reportPrivateUsage]
        inner = holder[name]
        assert inner is not None
        if plan is not None:
            plan.links.append((cast("dict[object, object]", holder), name, inner))
        module = inner


class PlainNames:
    """Plain names for the tensors in `module`."""

    def __init__(self, module: torch.nn.Module) -> None:
        # The modules, and the prefix of each in the names of a state_dict.
        self.modules: list[tuple[str, torch.nn.Module]] = []
        self._plain: dict[str, str] = {}  # prefixes with parts of wrappers, and without
        known: dict[str, tuple[str, str, tuple[str, bool]]] = {}
        for path, one in module.named_modules(remove_duplicate=False):
            start, plain = "", ""
            if path:
                parent, _dot, own = path.rpartition(".")
                start, plain, (attribute, is_hidden) = known[parent]
                if own != attribute:
                    plain += own + "."
                if own != attribute or not is_hidden:
                    start += own + "."
            known[path] = (start, plain, _attribute(one))
            self.modules.append((start, one))
            for prefix in (start, f"{path}." if path else ""):
                if prefix != plain:
                    self._plain[prefix] = plain

    def of(self, name: str) -> str:
        """The plain form of a name from `state_dict` or `named_parameters`."""
        prefix = name[: name.rfind(".") + 1]
        while self._plain and prefix:
            if prefix in self._plain:
                return self._plain[prefix] + name[len(prefix) :]
            prefix = prefix[: prefix.rfind(".", 0, -1) + 1]
        return name

    def table(self, names: Iterable[str]) -> dict[str, str]:
        """The plain names by name. Names that would be equal then stay as they are."""
        found = {name: self.of(name) for name in names}
        if not self._plain:
            return found
        count = Counter(found.values())
        return {name: plain if count[plain] == 1 else name for name, plain in found.items()}


def plain_state(module: torch.nn.Module) -> object:
    """The state_dict of a bare module that makes it itself, with plain names."""
    given: object = module.state_dict()
    if not _is_named(given):
        return given
    named = cast("dict[str, object]", given)
    table = PlainNames(module).table(named)
    if all(name == plain for name, plain in table.items()):
        return named
    pairs = ((table[name], value) for name, value in named.items())
    return OrderedDict(pairs) if isinstance(given, OrderedDict) else dict(pairs)


def loadable_state(module: torch.nn.Module, saved: object) -> object:
    """What `plain_state` gave, or an older version saved, with the names that `bare` loads now."""
    inner = bare(module, None)
    live: object = inner.state_dict()
    if not _is_named(saved) or not _is_named(live):
        return saved
    named = cast("dict[str, object]", saved)
    table = PlainNames(inner).table(cast("dict[str, object]", live))
    now = {plain: name for name, plain in table.items()}
    names = PlainNames(module)
    found = {now[name]: value for name, value in named.items() if name in now}
    for name, value in named.items():
        if name not in now:
            older = (names.of(name), without_marks(name))
            known = next((now[one] for one in older if one in now), name)
            found[name if known in found else known] = value
    return OrderedDict(found) if isinstance(saved, OrderedDict) else found


def _is_named(state: object) -> bool:
    return isinstance(state, dict) and all(
        isinstance(name, str) for name in cast("dict[object, object]", state)
    )
