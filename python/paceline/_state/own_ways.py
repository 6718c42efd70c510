"""Modules and optimizers that make or load their state_dict in ways of their own.

What torch itself defines is known: a state_dict holds the live parameters and buffers, and loading
copies values into them. Code of others may give copies, other names or more values. Then each save
asks for the state_dict, and a restore hands it back.
"""

from collections.abc import Mapping
from typing import cast

import torch
from torch.optim import Optimizer

from paceline._state.stateful import telling
from paceline.errors import CheckpointError

State = dict[str, object]


def saves_itself(module: torch.nn.Module) -> bool:
    """Whether the state_dict of this bare module is more than its parameters and buffers."""
    for one in module.modules():
        if isinstance(one, torch.jit.ScriptModule):  # its parameters are in no dict of Python's
            return True
        hooks = _others(one._state_dict_hooks)  # pyright: ignore[reportPrivateUsage]
        before = one._state_dict_pre_hooks  # pyright: ignore[reportPrivateUsage]
        names = ("state_dict", "_save_to_state_dict", "get_extra_state")
        if hooks or (before and not _is_sharding(one)) or any(_is_own(one, n) for n in names):
            return True
    return False


def loads_itself(module: torch.nn.Module) -> bool:
    """Whether this bare module does more at a load than to copy values into its tensors."""
    for one in module.modules():
        before = _others(one._load_state_dict_pre_hooks)  # pyright: ignore[reportPrivateUsage]
        after = one._load_state_dict_post_hooks  # pyright: ignore[reportPrivateUsage]
        if after or (before and not _is_sharding(one)) or _is_own(one, "_load_from_state_dict"):
            return True
    return _is_own(module, "load_state_dict")


def load_again(key: str, module: torch.nn.Module) -> None:
    """Run what a module does at a load, with the values that it has."""
    with telling(key, module):
        module.load_state_dict(module.state_dict())


def own_state(key: str, optimizer: Optimizer) -> State | None:
    """What the optimizer's state_dict holds beside torch's `state` and `param_groups`.

    None: it has another form than torch's. Raises CheckpointError if its state_dict fails.
    """
    if not has_own_state(optimizer):
        return {}
    try:
        given: object = optimizer.state_dict()
    except Exception as error:  # of the optimizer's own code
        raise CheckpointError(
            what=f"the state_dict of {key} cannot be had",
            where=f"the optimizer {key}, a {type(optimizer).__qualname__}",
            why=f"{type(error).__name__}: {error}",
            fix="save an object whose state_dict works on every rank; of a "
            "ZeroRedundancyOptimizer its part, OPTIMIZER.optim",
            is_final=True,
        ) from error
    if not isinstance(given, dict):
        return None
    found = cast("State", given)
    if not _is_torchs(optimizer, found.get("state"), found.get("param_groups")):
        return None
    return {name: value for name, value in found.items() if name not in ("state", "param_groups")}


def has_own_state(optimizer: Optimizer) -> bool:
    """Whether code that is not torch's has a part in the optimizer's state_dict."""
    hooks = ("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks")
    is_hooked = any(getattr(optimizer, name, None) for name in hooks)
    return is_hooked or any(_is_own(optimizer, n) for n in ("state_dict", "load_state_dict"))


def _is_torchs(optimizer: Optimizer, state: object, groups: object) -> bool:
    """Whether these are the live state and groups, numbered as torch does."""
    if not isinstance(state, dict) or not isinstance(groups, list):
        return False
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = {id(p): i for i, p in enumerate(parameters)}
    live = {
        numbers.get(id(p), p): inner
        for p, inner in cast("dict[object, object]", optimizer.state).items()
    }
    found = cast("dict[object, object]", state)
    numbered = [[numbers[id(p)] for p in group["params"]] for group in optimizer.param_groups]
    given = [
        cast("State", group).get("params") if isinstance(group, dict) else None
        for group in cast("list[object]", groups)
    ]
    is_live = all(name in live and live[name] is inner for name, inner in found.items())
    return is_live and len(found) == len(live) and given == numbered


def _is_sharding(module: torch.nn.Module) -> bool:
    return type(module).__name__.startswith("FSDP")  # FSDP's hooks only shard again


def _others(hooks: Mapping[int, object]) -> list[object]:
    """The hooks that do more than to remove an activation checkpoint's part of the names."""
    home = "torch.distributed.algorithms._checkpoint."
    found = [(str(getattr(one, "__module__", "")), one) for one in hooks.values()]
    return [one for module, one in found if not module.startswith(home)]


def _is_own(one: object, name: str) -> bool:
    """Whether the object has this method from code that is not torch's."""
    if name in vars(one):
        return True
    home = next((base for base in type(one).__mro__ if name in vars(base)), None)
    return home is not None and not home.__module__.startswith(("torch.nn.", "torch.optim"))
