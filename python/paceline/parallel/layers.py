"""The layers of a model, in the order in which they run.

    layers_of(torch.nn.Sequential(a, b)).names  # ["0", "1"]

Plans count layers by their place in this list. Names are those of the undivided model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import nn

from paceline.parallel import own_plans, planner

Kind = Literal["sequential", "transformers", "modules", "whole"]


@dataclass(frozen=True, slots=True)
class Layers:
    """The qualified names of the layers, and whether the model can be a pipeline."""

    names: list[str]
    kind: Kind
    no_pipeline: str  # why the model has no pipeline, as one sentence; "" if it has one
    # Modules that run between the first and the second layer, and in the first stage alone. The
    # model adds the outputs of `added` to those of the first layer (gpt2: its position embedding).
    # Then the sum goes through `passed` (gpt2: its dropout).
    added: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def told(self, place: int) -> str:
        """The layer in a sentence: "layer 3", or "model.layers.3"."""
        return told(self.names[place])

    def of(self, model: nn.Module) -> list[nn.Module]:
        """The modules of that model, one for each name."""
        return [model.get_submodule(name) for name in self.names]


def told(name: str) -> str:
    """A module in a sentence. Children of an nn.Sequential have only numbers as names."""
    return f"layer {name}" if name[:1].isdigit() else name


def layers_of(model: nn.Module) -> Layers:
    """Returns the layers of any module; a model that cannot be divided is one layer."""
    found = _of_sequential(model) or _of_transformers(model) or _of_module_list(model)
    if found is not None:
        return found
    kind = type(model).__qualname__
    return Layers([""], "whole", f"{kind} has neither an nn.Sequential nor a list of layers")


def _of_sequential(model: nn.Module) -> Layers | None:
    if not isinstance(model, nn.Sequential) or len(model) == 0:
        return None
    names = [name for name, _ in model.named_children()]
    why = "" if len(names) > 1 else "the nn.Sequential has one child only"
    return Layers(names, "sequential", why)


def _of_transformers(model: nn.Module) -> Layers | None:
    """The layers of a model of transformers, whose pipeline plan lists the modules in their
    order.
    """
    config, kind = config_of(model), type(model).__qualname__
    plan = getattr(config, "base_model_pp_plan", None)
    own = own_plans.plan_of(str(getattr(config, "model_type", "")))
    base = getattr(model, "base_model", None)
    if not (own or (isinstance(plan, dict) and plan)) or not isinstance(base, nn.Module):
        return None
    prefix = "" if base is model else f"{cast('Any', model).base_model_prefix}."
    names: list[str] = []
    for key in own.layers if own else cast("dict[str, Any]", plan):
        try:
            module = base.get_submodule(key)
        except AttributeError:
            return None  # a plan of another release of the model
        names += [f"{prefix}{name}" for name in _inside(key, module)]
    heads = [name for name, one in model.named_children() if base is not model and one is not base]
    known = cast("dict[str, Any]", getattr(type(model), "_pp_plan", None) or {})
    foreign = [one for one in heads if one not in (own.heads.get(kind, ()) if own else known)]
    names += heads
    why = f"transformers names no pipeline plan for {foreign[0]} of {kind}" if foreign else ""
    added, passed = (own.added, own.passed) if own else ((), ())
    return Layers(names, "transformers", why, tuple(f"{prefix}{one}" for one in added),
                  tuple(f"{prefix}{one}" for one in passed))  # fmt: skip


def config_of(model: nn.Module) -> Any:
    """The config of a model of transformers; None for others."""
    return getattr(model, "config", None)


def _of_module_list(model: nn.Module) -> Layers | None:
    lists = [(name, one) for name, one in model.named_modules() if isinstance(one, nn.ModuleList)]
    lists = [(name, one) for name, one in lists if len(one) > 0]
    if not lists:
        return None
    # The first of the largest lists, because a list within a block is smaller than the list of
    # blocks.
    path, _ = max(lists, key=lambda one: sum(p.numel() for p in one[1].parameters()))
    kind = type(model).__qualname__
    lacks = planner.lacks("pipeline", str(getattr(config_of(model), "model_type", "")))
    why = f"the forward pass of {kind} cannot be cut: it is no nn.Sequential, and " \
          f"{lacks or 'has no pipeline plan of transformers'}"  # fmt: skip
    return Layers(list(_along(model, "", path)), "modules", why)


def _along(module: nn.Module, at: str, path: str) -> Iterator[str]:
    """The children of the module at `path`, with the modules before and after it at each level."""
    for name, child in module.named_children():
        whole = f"{at}.{name}" if at else name
        if whole == path:
            yield from (f"{whole}.{inner}" for inner, _ in child.named_children())
        elif path.startswith(f"{whole}."):
            yield from _along(child, whole, path)
        else:
            yield from _inside(whole, child)


def _inside(name: str, module: nn.Module) -> Iterator[str]:
    """The layers in a module. A ModuleList is never called itself, so its children are the
    layers.
    """
    if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        for inner, child in module.named_children():
            yield from _inside(f"{name}.{inner}", child)
    else:
        yield name


def shared_between(model: nn.Module, layers: Layers) -> dict[int, list[int]]:
    """Parameters that several layers hold: the id of each, and the places of these layers."""
    found: dict[int, list[int]] = {}
    for place, module in enumerate(layers.of(model)):
        for one in {id(parameter) for parameter in module.parameters()}:
            found.setdefault(one, []).append(place)
    return {one: places for one, places in found.items() if len(places) > 1}


def ties_of(model: nn.Module, layers: Layers) -> list[list[str]]:
    """Parameters that only the first and the last layer hold: all names of each, in the model's
    order.

    In a pipeline, the last stage has a copy of them. Layers that share whole modules have none,
    because buffers of these would need a copy too.
    """
    modules = layers.of(model)
    if len(modules) < 2 or set(modules[0].modules()) & set(modules[-1].modules()):
        return []
    ends = {one for one, places in shared_between(model, layers).items()
            if places == [0, len(modules) - 1]}  # fmt: skip
    found: dict[int, list[str]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        if id(one) in ends:
            found.setdefault(id(one), []).append(name)
    inside = tuple(f"{layers.names[place]}." for place in (0, -1))
    return [names for names in found.values() if all(one.startswith(inside) for one in names)]
