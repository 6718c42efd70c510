"""The summary of a model that the planner works with; see docs/formats/parallel_plan.md.

    summary = describe(model, (x, y), torch.nn.functional.mse_loss, optimizer=make_adamw)
    summary["layers"][0]  # {"name": "0", "flops": …, "parameters": …, "saved": …, "output": …}
"""

import inspect
import json
import logging
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from paceline._base import arguments
from paceline._data.fingerprint import kept_chance
from paceline.errors import ArgumentError
from paceline.parallel.asked import Asked, asked_of
from paceline.parallel.batch import Loss
from paceline.parallel.errors import PlanError
from paceline.parallel.given import must_be_made
from paceline.parallel.layers import Layers, layers_of, shared_between, ties_of
from paceline.parallel.tensor import Division, division_of, split_of
from paceline.parallel.trace import FEW, MORE, Seen, trace

SCHEMA = "paceline.model/1"
PRECISIONS = ("fp32", "bf16")
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
Json = dict[str, Any]

_TEXT_MAX = 64 << 10
_LAYERS_MAX = 1000
# Adam's two moments; used if the optimizer's state cannot be found out.
_USUAL_BYTES = 8
_SMALL = 8  # the largest extent of a tensor that replaces another one


def describe(
    model: nn.Module,
    example: object,
    loss: Loss,
    *,
    optimizer: MakeOptimizer | None = None,
    precision: str = "fp32",
    name: str = "",
) -> Json:
    """The summary of a model. It takes no memory for tensors, so the model may be on the meta
    device.

    `example` is a batch, `(inputs, targets)` or a mapping with "labels"; its values are not used.
    `loss(output, targets)` is the mean over the samples. `optimizer` makes an optimizer of
    parameters. Raises PlanError if the forward pass depends on the values of tensors.
    """
    return study(
        model, example, loss, optimizer=optimizer, precision=precision, name=name
    ).summary


@dataclass(frozen=True, slots=True)
class Study:
    """A summary, and the layers that it was made from."""

    summary: Json
    layers: Layers
    division: Division
    asked: Asked
    rows: list[Json]  # rows of the summary, one for each layer
    few: list[Seen]
    more: list[Seen]
    ties: list[list[str]]  # as `ties_of` has them


def study(
    model: nn.Module,
    example: object,
    loss: Loss,
    *,
    optimizer: MakeOptimizer | None,
    precision: str,
    name: str = "",
    world_size: int | None = None,
) -> Study:
    """As `describe`, with the traces of the layers. `world_size` None: the devices are not
    known.
    """
    arguments.one_of("describe", "precision", precision, PRECISIONS)
    layers = layers_of(model)
    ties = ties_of(model, layers)
    asked, division = asked_of(model, layers, world_size), division_of(model)
    few, more = (
        trace(model, layers, example, loss, precision=precision, samples=size)
        for size in (FEW, MORE)
    )
    cuts = asked.cuts | _cuts(model, layers, few, ties)
    rows = [_row(model, layers, place, few, more, cuts) for place in range(len(few))]
    _add_loose(model, layers, rows)
    _add_copies(model, ties, rows)
    _add_splits(model, layers, division, rows)
    summary = {
        "schema": SCHEMA,
        "name": name or type(model).__qualname__,
        "precision": precision,
        "bytes": _bytes(model, optimizer, precision),
        "layers": _folded(rows, layers.of(model)),
        "no_pipeline": _no_pipeline(layers, few, cuts),
        "no_tensor": division.why,
        "tensor_divides": division.divides,
        "sequence_divides": _tokens(rows, few),
    }
    _must_be_small(summary, type(model).__qualname__)
    return Study(summary, layers, division, asked, rows, few, more, ties)


def text_of(summary: Json) -> str:
    """The summary as the planner reads it."""
    return json.dumps(summary, separators=(",", ":"))


def _tokens(rows: list[Json], seen: list[Seen]) -> int:
    """The length of the sequences that ranks can divide; 0 if no layer's can be divided."""
    lengths = {
        one.output.shape[1] if one.output and len(one.output.shape) > 1 else 1
        for row, one in zip(rows, seen, strict=True)
        if "sequence" in row.get("tensor", {})
    }
    return math.gcd(*lengths)


def _no_pipeline(layers: Layers, seen: list[Seen], cuts: dict[int, str]) -> str:
    """Why the model cannot be cut anywhere, as one sentence; "" if it can."""
    amiss = layers.no_pipeline or next((one.amiss for one in seen if one.amiss), "")
    if not amiss and len(seen) > 1 and len(cuts) >= len(seen) - 1:
        return cuts[0]
    return amiss


def _row(
    model: nn.Module,
    layers: Layers,
    place: int,
    few: list[Seen],
    more: list[Seen],
    cuts: dict[int, str],
) -> Json:
    one, two = few[place], more[place]
    output = (one.output.bytes, two.output.bytes) if one.output and two.output else (0, 0)
    row: Json = {
        "name": layers.names[place] or "model",
        "flops": _each(one.flops, two.flops),
        "parameters": _parameters(model, layers, place),
        "saved": _each(one.saved, two.saved),
        "output": _each(*output),
    }
    kept = _each(one.kept, two.kept)
    if 0 < kept < row["saved"]:  # otherwise selective recomputation saves nothing
        again = min(_each(one.again, two.again), row["flops"])
        row["selective"] = {"kept": kept, "flops": again}
    if place in cuts:
        row["cut"] = cuts[place]
    return row


def _each(few: int, more: int) -> int:
    """The bytes of one sample. A tensor that does not grow with the batch, such as a mask, does
    not count.
    """
    return max(0, math.ceil((more - few) / (MORE - FEW)))


def _parameters(model: nn.Module, layers: Layers, place: int) -> int:
    """The number of the layer's trained parameters. A parameter that an earlier layer has too
    counts there.
    """
    modules = layers.of(model)
    before = {id(one) for module in modules[:place] for one in module.parameters()}
    own = [one for one in modules[place].parameters() if one.requires_grad]
    return sum(one.numel() for one in own if id(one) not in before)


def _add_loose(model: nn.Module, layers: Layers, rows: list[Json]) -> None:
    """Count parameters that are in no layer, such as a table of positions, to the first layer."""
    known = {id(one) for module in layers.of(model) for one in module.parameters()}
    loose = [one for one in model.parameters() if one.requires_grad and id(one) not in known]
    rows[0]["parameters"] += sum(one.numel() for one in loose)


def _add_copies(model: nn.Module, ties: list[list[str]], rows: list[Json]) -> None:
    """Tell how many parameters of the first layer the last one uses too."""
    shared = [model.get_parameter(names[0]) for names in ties]
    if copied := sum(one.numel() for one in shared if one.requires_grad):
        rows[-1]["copied"] = copied


def _add_splits(model: nn.Module, layers: Layers, division: Division, rows: list[Json]) -> None:
    """Add the parts of a layer that ranks can divide."""
    for name, module, row in zip(layers.names, layers.of(model), rows, strict=True):
        split = split_of(name, module, division, row)
        if split is not None:
            row["tensor"] = split


def _cuts(
    model: nn.Module, layers: Layers, seen: list[Seen], ties: list[list[str]]
) -> dict[int, str]:
    """For each layer after which no stage may end, the reason."""
    cuts: dict[int, str] = {}
    for place, one in enumerate(seen[:-1]):
        if one.output is None:
            cuts[place] = f"the output of {layers.told(place)} is not one tensor"
        elif not one.output.shape or one.output.shape[0] != FEW:
            cuts[place] = f"the first dimension of {layers.told(place)}'s output is no batch"
        elif one.calls != 1:
            cuts[place] = f"{layers.told(place)} is called {one.calls} times"
    copied = {id(model.get_parameter(names[0])) for names in ties}
    for one, places in shared_between(model, layers).items():
        if one in copied:
            continue
        names = f"{layers.told(places[0])} and {layers.told(places[-1])}"
        for place in range(places[0], places[-1]):
            cuts[place] = f"{names} share weights"
    return cuts


# ---- repeated blocks ----


def _folded(rows: list[Json], modules: list[nn.Module]) -> list[Json]:
    """Joins equal layers with consecutive numbers in their names into one row."""
    found: list[Json] = []
    forms = [_structure(module) for module in modules]
    at = 0
    while at < len(rows):
        end = at + 1
        while end < len(rows) and forms[end] == forms[at] and _follow(rows, at, end):
            end += 1
        found.append(_fold(rows[at:end]))
        at = end
    return found


def _structure(module: nn.Module) -> tuple[Any, ...]:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return (
        tuple((name, type(one)) for name, one in module.named_modules()),
        tuple((name, tuple(one.shape), one.dtype, one.requires_grad) for name, one in tensors),
    )


def _follow(rows: list[Json], first: int, place: int) -> bool:
    """Whether the layer at `place` equals the one at `first` in its costs, and its name
    continues the count.
    """
    a, b = rows[first], rows[place]
    keys = ("flops", "parameters", "output")
    if any(a[key] != b[key] for key in keys):
        return False
    if any(a.get(key) != b.get(key) for key in ("cut", "copied")):
        return False
    splits = [one.get("tensor", {}) for one in (a, b)]
    keys = ("parameters", "exchanges", "sequence")
    if any(splits[0].get(key) != splits[1].get(key) for key in keys):
        return False
    if a.get("selective") != b.get("selective"):
        return False
    pattern, number = _numbered(a["name"])
    return number >= 0 and _numbered(b["name"]) == (pattern, number + place - first)


def _numbered(name: str) -> tuple[str, int]:
    """The name without its last number, and that number: `"layers.3"` is `("layers.{}", 3)`."""
    match = re.fullmatch(r"(.*?)(\d+)((?:\.[A-Za-z_]\w*)*)", name)
    return (f"{match[1]}{{}}{match[3]}", int(match[2])) if match else (name, -1)


def _fold(rows: list[Json]) -> Json:
    row = dict(rows[0])
    if len(rows) == 1:
        return row
    pattern, first = _numbered(row["name"])
    # The first block may save more, because it keeps tensors that all blocks share, such as rotary
    # angles.
    row["saved"] = math.ceil(sum(one["saved"] for one in rows) / len(rows))
    if "tensor" in row:
        saved = sum(one["tensor"]["saved"] for one in rows) // len(rows)
        row["tensor"] = {**row["tensor"], "saved": saved}
    return {"name": pattern, **({"first": first} if first else {}), "count": len(rows),
            **{key: value for key, value in row.items() if key != "name"}}  # fmt: skip


def _must_be_small(summary: Json, kind: str) -> None:
    size, count = len(text_of(summary).encode()), len(summary["layers"])
    if size > _TEXT_MAX or count > _LAYERS_MAX:
        raise PlanError(
            what="the summary of the model is too long",
            where=kind,
            why=f"it has {count} unequal layers in {size} bytes, at most {_LAYERS_MAX:,} in 64 KiB",
            fix="put several layers into one module, which then is one layer of the plan",
        )


# ---- bytes of a parameter ----


def _bytes(model: nn.Module, optimizer: MakeOptimizer | None, precision: str) -> Json:
    own = [one for one in model.parameters() if one.requires_grad] or list(model.parameters())
    numbers = sum(one.numel() for one in own)
    stored = sum(one.numel() * one.element_size() for one in own)
    weight = math.ceil(stored / numbers) if numbers else 4
    return {
        "weight": weight,
        "gradient": weight,
        "optimizer": _USUAL_BYTES if optimizer is None else optimizer_bytes(own, optimizer),
        "compute": 2 if precision == "bf16" else weight,
    }


def optimizer_bytes(parameters: list[nn.Parameter], make: MakeOptimizer) -> int:
    """Bytes of the optimizer's state for each parameter, found by a step on fake tensors.

    An optimizer that is fused or reads values cannot use fake tensors. It gets small ones on the
    CPU.
    """
    try:
        return _bytes_after_step([torch.empty_like(one, device="meta") for one in parameters], make)
    except ArgumentError:
        raise  # no optimizer was made
    except Exception as error:
        try:
            return _bytes_after_step([_small(one) for one in parameters], make)
        except Exception:
            logging.getLogger("paceline").warning(
                "the optimizer cannot step without memory, so %d bytes a parameter are assumed: %s",
                _USUAL_BYTES, str(error).split("\n")[0],
            )  # fmt: skip
            return _USUAL_BYTES


def _small(tensor: torch.Tensor) -> torch.Tensor:
    sizes = [min(size, _SMALL) for size in tensor.shape]
    return torch.zeros(sizes, dtype=tensor.dtype, device="cpu")


def _bytes_after_step(tensors: list[torch.Tensor], make: MakeOptimizer) -> int:
    own = [nn.Parameter(one, requires_grad=one.is_floating_point()) for one in tensors]
    for one in own:
        one.grad = torch.zeros_like(one)
    with kept_chance(), torch.device("cpu"), torch.no_grad():
        made = make(iter(own))
        must_be_made(made)
        # Not `step()`, whose hooks would count it as one of the training.
        inspect.unwrap(type(made).step)(made)
    total = 0
    for one in own:
        for value in made.state.get(one, {}).values():
            # A state without dimensions, such as a step count, does not grow with the parameter.
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                total += value.numel() * value.element_size()
    return math.ceil(total / max(1, sum(one.numel() for one in own)))
