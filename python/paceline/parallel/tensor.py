"""Which modules tensor parallelism divides, and how.

transformers has a tensor-parallel plan for its models, and `parallel.split` annotates any model.
The styles are those of transformers. With an unknown style, tensor parallelism is not offered,
because a wrongly divided module would compute something else.

    division_of(llama).styles  # {"model.layers.0.self_attn.q_proj": "colwise", …}
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import ceil, gcd
from typing import Any, cast

from torch import nn

from paceline.parallel import planner
from paceline.parallel.annotate import part_of
from paceline.parallel.errors import PlanError
from paceline.parallel.layers import config_of, told

Json = dict[str, Any]

# The dimension of the weight that ranks divide, by style: of a Linear, of an Embedding.
_DIVIDED: dict[str, tuple[int | None, int | None]] = {
    "colwise": (0, 1),
    "colwise_gather_output": (0, 1),
    "rowwise": (1, 0),
    "embedding_rowwise": (None, 0),
    # Whole on each rank. Each rank sees only a part of its uses, so its gradients are added up.
    "replicated_with_grad_allreduce": (None, None),
}
SUMMED = "replicated_with_grad_allreduce"
# The number of all-reduces of the module's output in a forward and a backward pass together.
_EXCHANGES = {"colwise": 1, "rowwise": 1, "colwise_gather_output": 2, "embedding_rowwise": 1}
# Number of undivided tensors of the output's size that a layer saves: the inputs of two norms and
# two residual sums.
_WHOLE_OUTPUTS = 4


@dataclass(frozen=True, slots=True)
class Division:
    """How a model is divided over the ranks that share its layers."""

    styles: dict[str, str] = field(default_factory=dict[str, str])  # by the module's qualified name
    divides: int = 0  # degrees must divide this number
    why: str = ""  # why there is none, as one sentence; "" if there is one


def division_of(model: nn.Module) -> Division:
    """The division from transformers' plan and the annotations, or the reason why there is none.

    Raises PlanError for annotations that cannot be carried out.
    """
    styles, why = _foreign(model)
    _keep_whole(model, styles)
    _add_annotated(model, styles)
    if not styles:
        return Division(why=why)
    return Division(styles, gcd(*_sizes(model, styles)))


def _foreign(model: nn.Module) -> tuple[dict[str, str], str]:
    """The styles of transformers' plan for the model; or no styles, and the reason."""
    patterns = _of_transformers(model)
    if not patterns:
        kind = type(model).__qualname__
        if why := planner.lacks("tensor", str(getattr(config_of(model), "model_type", ""))):
            return {}, f"{why}, and {kind} has no parallel.split"
        return {}, f"{kind} has neither a tensor-parallel plan of transformers nor a parallel.split"
    styles: dict[str, str] = {}
    for name, _ in model.named_modules():
        for pattern, style in patterns.items():
            if _matches(name, pattern):
                styles[name] = style
    why = _amiss(model, styles, patterns)
    return ({}, why) if why else (styles, "every module that transformers divides is replicated")


def _keep_whole(model: nn.Module, styles: dict[str, str]) -> None:
    """Remove the modules under `replicate`. Divided modules of one parent can only be removed
    together.
    """
    for name in list(styles):
        scope = part_of(model.get_submodule(name)) if name in styles else None
        if scope is None or scope.kind != "replicate":
            continue
        parent = name.rpartition(".")[0]
        for other in [one for one in styles if one.rpartition(".")[0] == parent]:
            if part_of(model.get_submodule(other)) is not scope:
                raise PlanError(
                    what=f"{told(name)} cannot be whole alone",
                    where=scope.place,
                    why=f"transformers divides it together with {other}",
                    fix=f"parallel.assign(model.{parent}, parallel.replicate())",
                )
            del styles[other]


def _add_annotated(model: nn.Module, styles: dict[str, str]) -> None:
    """Add the modules under `split`. Their inputs and outputs are whole tensors."""
    owners: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        scope = part_of(module)
        if scope is None or scope.kind != "split":
            continue
        owners = owners or _owners(model)
        style = "colwise_gather_output" if isinstance(module, nn.Linear) else "embedding_rowwise"
        others = _sharers(module, name, owners)
        why = f"{others[0]} has the same weight" if others else ""
        if styles.setdefault(name, style) != style:
            why = f"transformers divides it as {styles[name]}, together with its neighbours"
        if why:
            fix = "leave split out there: the search divides it"
            if others:
                fix = "a weight of its own, or no split"
            what = f"{told(name)} cannot be split"
            raise PlanError(what=what, where=scope.place, why=why, fix=fix)


def _of_transformers(model: nn.Module) -> dict[str, str]:
    """Styles by module name, from patterns in which "*" is the number of a layer."""
    base = getattr(model, "base_model", None)
    plan = getattr(getattr(model, "config", None), "base_model_tp_plan", None)
    if not isinstance(plan, dict) or not plan or not isinstance(base, nn.Module):
        return {}
    prefix = "" if base is model else f"{cast('Any', model).base_model_prefix}."
    found = {f"{prefix}{name}": str(style) for name, style in cast("Json", plan).items()}
    if base is not model:
        own = cast("Json", getattr(type(model), "_tp_plan", None) or {})
        found |= {name: str(style) for name, style in own.items()}
    return found


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _amiss(model: nn.Module, styles: dict[str, str], patterns: dict[str, str]) -> str:
    """Why these styles cannot be carried out, as one sentence; "" if they can."""
    if not styles:
        return f"no module of {type(model).__qualname__} is in its tensor-parallel plan"
    for pattern, style in patterns.items():
        if style not in _DIVIDED:
            return f"transformers divides {pattern} as {style}, which is not built"
    tensors = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if any(_matches(name, pattern) for name in tensors):
            return f"transformers divides the tensor {pattern} itself, which is not built"
    owners = _owners(model)
    for name, style in styles.items():
        module = model.get_submodule(name)
        if style != SUMMED and _dimension(module, style) is None:
            return f"{name} is {type(module).__qualname__}, which cannot be divided as {style}"
        others = _sharers(module, name, owners)
        if others:
            return f"{name} and {others[0]} share a weight"
    return ""


def _sharers(module: nn.Module, name: str, owners: dict[int, list[str]]) -> list[str]:
    """The other modules that hold a parameter of this one."""
    own = list(module.parameters(recurse=False))
    return [other for one in own for other in owners[id(one)] if other != name]


def _owners(model: nn.Module) -> dict[int, list[str]]:
    """The modules that hold a parameter, by its id."""
    owners: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        for one in module.parameters(recurse=False):
            owners.setdefault(id(one), []).append(name)
    return owners


def _dimension(module: nn.Module, style: str) -> int | None:
    """The dimension of the module's weight that is divided."""
    if isinstance(module, nn.Linear):
        return _DIVIDED[style][0]
    return _DIVIDED[style][1] if isinstance(module, nn.Embedding) else None


def _sizes(model: nn.Module, styles: dict[str, str]) -> Iterator[int]:
    """The numbers that a degree must divide: of rows or columns, and of heads."""
    for name, style in styles.items():
        module = model.get_submodule(name)
        dimension = _dimension(module, style)
        if dimension is not None:
            yield cast("Any", module).weight.shape[dimension]
    config = getattr(model, "config", None)
    for key in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(config, key, None)
        if isinstance(heads, int) and heads > 0:
            yield heads


# ---- divided sequences ----


@dataclass(frozen=True, slots=True)
class SequenceParts:
    """The children of a layer whose sequence ranks can divide, by qualified name."""

    regions: list[str]  # their first products are divided by columns, and their last one by rows
    norms: list[str]  # they work on each token alone, and are whole on each rank


def sequence_of(layer: str, module: nn.Module, division: Division) -> SequenceParts | None:
    """How the ranks that share a layer can divide its sequence. None: they cannot.

    It takes a layer of norms and of divided regions, with nothing of its own. Between regions each
    rank then has a part of the tokens. A gather before a region and a scatter behind it take the
    place of the sums that its divided products need.
    """
    if any(True for _ in module.parameters(recurse=False)):
        return None
    parts = SequenceParts([], [])
    for name, child in module.named_children():
        at = f"{layer}.{name}"
        styles = {s for one, s in division.styles.items() if one.startswith(f"{at}.")}
        if {"colwise", "rowwise"} <= styles <= {"colwise", "rowwise", SUMMED}:
            parts.regions.append(at)
        elif styles or at in division.styles:
            return None
        elif any(True for _ in child.parameters()):
            if not type(child).__name__.endswith("Norm") or any(True for _ in child.children()):
                return None
            parts.norms.append(at)
    return parts if parts.regions else None


# ---- the costs of a layer ----


def split_of(layer: str, module: nn.Module, division: Division, row: Json) -> Json | None:
    """The field `tensor` of a layer's row in the summary; None if no part of the layer is divided.

    Operations between two divided matrix products, such as attention, are divided in the same way.
    """
    styles = {
        name: style
        for name, style in division.styles.items()
        if name == layer or name.startswith(f"{layer}." if layer else "")
    }
    exchanges = sum(_EXCHANGES.get(style, 0) for style in styles.values())
    if not exchanges:
        return None
    start = len(layer) + 1 if layer else 0
    inside = [module.get_submodule(name[start:]) for name, style in styles.items()
              if style != SUMMED]  # fmt: skip
    divided = sum(one.numel() for part in inside for one in part.parameters() if one.requires_grad)
    matrices = sum(one.numel() for one in module.parameters() if one.dim() > 1)
    own = sum(one.numel() for part in inside for one in part.parameters() if one.dim() > 1)
    part = own / matrices if matrices else 0.0
    found: Json = {
        "parameters": min(divided, row["parameters"]),
        "flops": int(row["flops"] * part),
        "saved": int(max(0, row["saved"] - _WHOLE_OUTPUTS * row["output"]) * part),
        "exchanges": ceil(exchanges / 2),  # the planner counts those of a forward pass
    }
    if "selective" in row:
        summands = sum(style == "rowwise" for style in styles.values())
        found["kept"] = max(0, row["selective"]["kept"] - summands * row["output"])
    parts = sequence_of(layer, module, division)
    if parts is not None:
        count = len(parts.regions)
        whole = row["saved"] - found["saved"]
        gathered = min(count * row["output"], whole)  # torch keeps them for the backward pass
        found["sequence"] = {"exchanges": count, "gathered": gathered}
    return found
