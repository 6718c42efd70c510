"""Saves and restores the state of torch's optimizers.

Tensors of a parameter are leaves of the plan, named `KEY.state.PARAMETER.WHAT`. Each save reads
the rest again: the groups' settings (a learning rate may be a tensor), and state that is no tensor,
or a container of tensors as LBFGS has it.
"""

import dataclasses
from collections.abc import Callable
from typing import cast

import torch
from torch.optim import Optimizer

from paceline._base.wording import described
from paceline._restore.restoring import Restoring, holds_part, listed
from paceline._state.own_ways import has_own_state, own_state
from paceline._state.save_plan import Leaf, SavePlan, State
from paceline._state.stateful import telling
from paceline._state.torch_flattened import Shard, is_flattened, moved, sharded_like
from paceline._state.torch_groups import SavedNames, foreign_options, leave_out_state, match
from paceline._state.torch_state import is_sharded, is_told_replica, parameter_names
from paceline.errors import CheckpointError

Group = dict[str, object]


def plan_optimizer(
    make_leaf: Callable[[str, object, dict[object, object], object], Leaf],
    plan: SavePlan,
    key: str,
    optimizer: Optimizer,
    state: State,
) -> None:
    """Add the entry `key` to the plan. `make_leaf` is `Torch.leaf`."""
    names = parameter_names(optimizer, state)
    states = cast("dict[object, dict[object, object]]", optimizer.state)
    scalars: list[tuple[str, dict[object, object], object]] = []
    plan.attributes.append((optimizer, "state", states))
    plan.watch(cast("dict[object, object]", states))
    for parameter, name in names.items():
        inner = states.get(parameter)
        if inner is None:
            continue
        plan.links.append((cast("dict[object, object]", states), parameter, inner))
        plan.watch(_checked(key, name, inner))
        for what, value in inner.items():
            if _is_simple(what) and isinstance(value, torch.Tensor) and not is_flattened(value):
                leaf = make_leaf(f"{key}.state.{name}.{what}", value, inner, what)
                is_own = not is_told_replica(parameter)
                leaf = dataclasses.replace(leaf, is_stepped=True, is_parameter=is_own)
                plan.leaves.append(leaf)
            else:
                scalars.append((name, inner, what))

    def rest() -> object:
        found: dict[str, dict[object, object]] = {}
        for name, inner, what in scalars:
            found.setdefault(name, {})[what] = inner[what]
        entry: dict[str, object] = {"param_groups": _settings(optimizer), "scalars": found}
        others = {what: value for what, value in states.items() if what not in names}
        own = own_state(key, optimizer)
        return entry | ({"others": others} if others else {}) | ({"own": own} if own else {})

    plan.values[key] = rest
    # As many texts as parameters, so they are written once and not in every save.
    plan.constants[key] = [[names[p] for p in g["params"]] for g in optimizer.param_groups]


def restore_optimizer(work: Restoring, key: str, optimizer: Optimizer, state: State) -> None:
    """Ask for the saved optimizer `key`, and load it when its tensors are restored."""
    names = parameter_names(optimizer, state)
    live = [[names[p] for p in g["params"]] for g in optimizer.param_groups]
    entry = work.entry(key)
    if entry is None:
        return
    if not _is_entry(entry):
        work.pass_over(f"{key}.")
        work.leave_out(f"{key} was saved, and was no optimizer then")
        return
    noted = cast("dict[str, list[object]]", entry)
    if foreign := foreign_options(optimizer, noted["param_groups"]):
        leave_out_state(work, key, cast("Group", entry), f"its options {listed(foreign)}")
        work.orders[id(optimizer)] = ([None] * len(live), len(noted["param_groups"]))
        return
    constants = cast("dict[str, list[list[str]]]", work.own.get("constants", {}))
    them = SavedNames(names, parameter_names(optimizer, state, is_plain=False))
    own, is_part = constants.get(key, []), holds_part(optimizer)
    saved_groups = work.groups(key, own, live, is_part=is_part, now=them.now)
    matched = match(work, key, saved_groups, live)
    saved_as, order = {n: them.saved(m) for n, m in matched.names.items()}, matched.order
    if order != list(range(len(noted["param_groups"]))):
        work.orders[id(optimizer)] = (order, len(noted["param_groups"]))
    states = cast("dict[object, dict[object, object]]", optimizer.state)
    known = {saved_as[n]: states.get(p) for p, n in names.items() if n in saved_as}
    settings = _settings(optimizer)
    theirs = dict(zip(order, settings, strict=True))
    stood = [theirs.get(j, {}) for j in range(len(noted["param_groups"]))]
    stands: dict[str, object] = {"param_groups": stood, "scalars": known}
    stands["others"] = {what: value for what, value in states.items() if what not in names}
    stands["own"] = stood_own = own_state(key, optimizer) or {}
    rest = cast("dict[str, object]", work.decoded(key, entry, stands))
    saved = cast("list[Group]", rest["param_groups"])
    groups = [own if j is None else saved[j] for own, j in zip(settings, order, strict=True)]
    scalars = cast("dict[str, dict[object, object]]", rest["scalars"])
    numbers = {name: i for i, name in enumerate(name for group in live for name in group)}
    found: dict[object, object] = dict(cast("dict[object, object]", rest.get("others", {})))
    for parameter, name in names.items():
        if name not in saved_as:
            continue
        inner = _placed(scalars.get(saved_as[name], {}), cast("torch.Tensor", parameter), work)
        parent = f"{key}.state.{saved_as[name]}"
        for what in work.saved.children(parent):
            there = states.get(parameter, {}).get(what)
            if not is_told_replica(parameter):
                work.parameters.add(f"{parent}.{what}")
            inner[what] = work.tensor(f"{parent}.{what}", there, like=parameter)
        if inner:
            found[numbers[name]] = inner
    loaded: dict[str, object] = {
        "state": found,
        "param_groups": [
            {**group, "params": [numbers[name] for name in its]}
            for group, its in zip(groups, live, strict=True)
        ],
    }
    loaded |= cast("Group", rest.get("own", {}))
    work.compare(key, lambda: _by_number(optimizer) | stood_own, loaded)
    work.after.append(lambda: _load_exactly(key, optimizer, loaded))


def _placed(
    inner: dict[object, object], like: torch.Tensor, work: Restoring
) -> dict[object, object]:
    """State of a parameter, with the parts of distributed tensors placed as the parameter is."""
    return {
        what: sharded_like(one.local, like, work) if isinstance(one, Shard) else one
        for what, one in inner.items()
    }


def has_form_of_its_own(work: Restoring, key: str, optimizer: Optimizer) -> bool:
    """Whether the saved entry `key` is a state_dict that this optimizer alone can read."""
    is_there = work.has_entry(key) and has_own_state(optimizer)
    return is_there and not _is_entry(work.entry(key))


def _is_entry(entry: object) -> bool:
    """Whether these are the notes of an optimizer, as `plan_optimizer` makes them."""
    return isinstance(entry, dict) and {"param_groups", "scalars"} <= set(cast("Group", entry))


def like_parameter(dtype: torch.dtype, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """A new tensor for optimizer state; sharded like its parameter if it has the same shape."""
    is_like = tuple(like.shape) == shape and is_sharded(like)
    with torch.no_grad():
        return torch.empty_like(like, dtype=dtype) if is_like else torch.empty(shape, dtype=dtype)


def _is_simple(what: object) -> bool:
    """Whether the state's key is the last part of the tensor's name."""
    return type(what) is str and "." not in what


def _checked(key: str, name: str, inner: object) -> dict[object, object]:
    if isinstance(inner, dict):
        return cast("dict[object, object]", inner)
    raise CheckpointError(
        what=f"{key} has state that a checkpoint cannot hold",
        where=f"the state of {name}",
        why=f"it is {described(inner)}, and no dict of tensors and plain values",
        fix="save the optimizer by an object with state_dict and load_state_dict of your own",
        is_final=True,
    )


def _settings(optimizer: Optimizer) -> list[Group]:
    return [{n: v for n, v in g.items() if n != "params"} for g in optimizer.param_groups]


def _by_number(optimizer: Optimizer) -> dict[str, object]:
    """The optimizer's state by number, as from `state_dict`, but without calling its hooks."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = {p: i for i, p in enumerate(parameters)}
    states = cast("dict[object, object]", optimizer.state)
    return {
        # An empty dict is not state: reading `optimizer.state[p]` creates it.
        "state": {numbers.get(p, p): inner for p, inner in states.items() if inner != {}},
        "param_groups": [
            {**group, "params": [numbers[p] for p in group["params"]]}
            for group in optimizer.param_groups
        ],
    }


def _load_exactly(key: str, optimizer: Optimizer, loaded: dict[str, object]) -> None:
    """Load the saved state with its own types and containers. `load_state_dict` alone would cast
    state to the parameter's type and make other containers.
    """
    states = cast("dict[object, dict[object, object]]", loaded["state"])
    simple = {
        number: {what: value for what, value in inner.items() if _is_loadable(value)}
        if isinstance(inner, dict)
        else inner
        for number, inner in states.items()
    }
    with telling(key, optimizer):
        optimizer.load_state_dict({**loaded, "state": simple})
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, inner in states.items():
        if not isinstance(number, int) or not isinstance(inner, dict):
            continue
        parameter = parameters[number]
        now = cast("dict[object, object]", optimizer.state[parameter])
        for what, value in inner.items():
            if what not in now or not _is_alike(now[what], value):
                was = now.get(what)
                device = was.device if isinstance(was, torch.Tensor) else parameter.device
                now[what] = _moved(value, device)
    for group, saved in zip(
        optimizer.param_groups, cast("list[Group]", loaded["param_groups"]), strict=True
    ):
        # Restore these objects themselves: `load_state_dict` copied them, but a compiled step and a
        # CUDA graph read the original tensor.
        group.update({name: value for name, value in saved.items() if _has_tensor(value)})


def _is_loadable(value: object) -> bool:
    """Whether `load_state_dict` can copy it: it rebuilds any iterable from a generator."""
    if type(value) is list or type(value) is tuple:
        return all(_is_loadable(one) for one in cast("list[object]", value))
    if type(value) is dict:
        return all(_is_loadable(one) for one in cast("dict[object, object]", value).values())
    is_plain = value is None or isinstance(value, (torch.Tensor, int, float, complex))
    return is_plain and not is_flattened(value)


def _is_alike(now: object, saved: object) -> bool:
    if is_flattened(saved):
        return now is saved
    if isinstance(saved, torch.Tensor):
        return isinstance(now, torch.Tensor) and now.dtype == saved.dtype
    if type(now) is not type(saved):
        return False
    if isinstance(saved, (list, tuple)):
        pairs = zip(cast("list[object]", now), cast("list[object]", saved), strict=True)
        return all(_is_alike(a, b) for a, b in pairs)
    if isinstance(saved, dict):
        given = cast("dict[object, object]", saved)
        return all(_is_alike(cast("dict[object, object]", now)[k], v) for k, v in given.items())
    return True


def _moved(value: object, device: torch.device) -> object:
    if isinstance(value, torch.Tensor):
        return moved(value, device) if is_flattened(value) else value.to(device)
    if type(value) is list or type(value) is tuple:
        return type(value)(_moved(one, device) for one in cast("list[object]", value))
    if type(value) is dict:
        items = cast("dict[object, object]", value).items()
        return {key: _moved(one, device) for key, one in items}
    return value


def _has_tensor(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(one) for one in cast("list[object]", value))
    if isinstance(value, dict):
        return any(_has_tensor(one) for one in cast("dict[object, object]", value).values())
    return isinstance(value, torch.Tensor)
