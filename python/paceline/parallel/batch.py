"""A batch: its inputs, its targets, and parts of it.

A batch is a pair `(inputs, targets)`, or a mapping whose "labels" are the targets. Inputs are one
tensor, a tuple of tensors, or a mapping of keyword arguments. A tensor is cut along its first
dimension if that is the number of samples; everything else is given to each part unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch.utils._pytree import tree_flatten, tree_map

from paceline._base.arguments import refuse
from paceline.parallel.errors import PlanError

Loss = Callable[[Any, Any], torch.Tensor]


def split(batch: object, where: str = "Job.step") -> tuple[Any, Any]:
    """The inputs and the targets of a batch: `split((x, y))` is `(x, y)`."""
    if isinstance(batch, Mapping):
        fields = dict(cast("Mapping[str, Any]", batch))
        if "labels" in fields and len(fields) > 1:
            targets = fields.pop("labels")
            return fields, targets
    elif isinstance(batch, (tuple, list)):
        pair = cast("list[Any]", batch)
        if len(pair) == 2:
            return (tuple(pair[0]) if isinstance(pair[0], list) else pair[0]), pair[1]
    wanted = 'a pair (inputs, targets), or a mapping with "labels"'
    raise refuse(where, "batch", batch, wanted, "a dataset whose samples are pairs")


def samples(inputs: object, where: str = "Job.step") -> int:
    """The number of samples in the inputs: the first dimension of their first tensor."""
    for one in tree_flatten(inputs)[0]:
        if isinstance(one, torch.Tensor) and one.dim() > 0:
            return int(one.shape[0])
    wanted = "made of tensors whose first dimension counts the samples"
    raise refuse(where, "inputs", inputs, wanted, "tensors as inputs")


def part(tree: Any, size: int, begin: int, end: int) -> Any:
    """The samples `begin` to `end` - 1 of inputs or targets, which have `size` samples."""

    def cut(one: Any) -> Any:
        is_cut = isinstance(one, torch.Tensor) and one.dim() > 0 and one.shape[0] == size
        return one[begin:end] if is_cut else one

    return tree if (begin, end) == (0, size) else tree_map(cut, tree)


def moved(tree: Any, device: torch.device) -> Any:
    """The same inputs or targets on `device`."""

    def move(one: Any) -> Any:
        if isinstance(one, torch.Tensor) and one.device != device:
            return one.to(device, non_blocking=True)
        return one

    return tree_map(move, tree)


def call(model: Callable[..., Any], inputs: Any) -> Any:
    """The model's output for the inputs. If it has `logits`, as in transformers, these."""
    if isinstance(inputs, Mapping):
        output = model(**without_cache(model, dict(cast("Mapping[str, Any]", inputs))))
    elif isinstance(inputs, tuple):
        output = model(*cast("tuple[Any, ...]", inputs), **without_cache(model, {}))
    else:
        output = model(inputs, **without_cache(model, {}))
    return logits_of(output)


def one_number(loss: object) -> torch.Tensor:
    """What the script's loss returned, which has to be one number."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise PlanError(
            what="the loss is not one number",
            where="parallelize(loss=…)",
            why="the loss of a step is the mean over its samples on all ranks",
            fix="loss=torch.nn.functional.cross_entropy, or another function that returns a mean",
        )
    return loss.reshape(())


def without_cache(model: object, options: dict[str, Any]) -> dict[str, Any]:
    """Turn off the key/value cache. Models of transformers fill it by default, and training does
    not need it.
    """
    if hasattr(getattr(model, "config", None), "use_cache"):
        options.setdefault("use_cache", False)
    return options


def logits_of(output: Any) -> Any:
    """The part of a model's output that the loss gets."""
    if isinstance(output, torch.Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        found = getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    return output
