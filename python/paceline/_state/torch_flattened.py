"""Tensors that wrap other tensors, as low-bit optimizers have them (torchao's AdamW8bit).

torch's protocol takes them apart: `__tensor_flatten__` names the inner tensors and gives a context,
and `__tensor_unflatten__` of the class makes the tensor again. The inner tensors are saved as any
others, and the context as notes. The class has to be loaded already: a restore imports nothing.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch

from paceline._restore.restoring import Restoring
from paceline._state.kinds import loaded_class
from paceline._state.torch_state import is_sharded

FLATTENED = "$flattened"
SHARD = "$shard"
_NAMED = "$torch"  # a type, layout or memory format of torch's, by its name
_SIZE = "$size"
_DEVICE = "$device"
_KINDS = (FLATTENED, SHARD, _NAMED, _SIZE, _DEVICE)


@dataclass(frozen=True)
class Shard:
    """The local part of a distributed tensor whose mesh is not known yet."""

    local: torch.Tensor


def is_flattened(value: object) -> bool:
    """Whether a tensor, or the local part of a distributed one, wraps other tensors."""
    if not isinstance(value, torch.Tensor) or not hasattr(type(value), "__tensor_flatten__"):
        return False
    return not is_sharded(value) or is_flattened(_local(value))


def note(value: object) -> tuple[str, object] | None:
    """The kind and the content in notes, of a tensor that wraps others and of what its context may
    hold; None for any other value.
    """
    if isinstance(value, torch.Size):
        return _SIZE, list(value)
    if isinstance(value, torch.device):
        return _DEVICE, str(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return _NAMED, str(value).removeprefix("torch.")
    if not is_flattened(value):
        return None
    tensor = cast("torch.Tensor", value)
    if is_sharded(tensor):
        return SHARD, {"local": _local(tensor)}
    names, context = cast("Any", tensor).__tensor_flatten__()
    return FLATTENED, {
        "class": [type(tensor).__module__, type(tensor).__qualname__],
        "tensors": {name: getattr(tensor, name) for name in names},
        "context": context,
        "size": list(tensor.shape),
        "stride": list(tensor.stride()),
    }


def is_of(kind: str) -> bool:
    return kind in _KINDS


def revive(kind: str, content: object, there: object, work: Restoring) -> object:
    """The value that `note` described. What cannot be made is a problem of the restore."""
    if kind == _SIZE:
        return torch.Size(cast("list[int]", content))
    if kind == _DEVICE:
        return torch.device(str(content))
    if kind == _NAMED:
        found = vars(torch).get(str(content))
        if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
            raise ValueError(f"this torch has no {content}")
        return found
    saved = cast("dict[str, Any]", content)
    if kind == SHARD:
        return _shard(saved["local"], there, work)
    return _whole(saved, there, work)


def _whole(saved: dict[str, Any], there: object, work: Restoring) -> object:
    module, name = saved["class"]
    tensors = cast("dict[str, torch.Tensor]", saved["tensors"])
    live = type(there)
    is_live = [live.__module__, live.__qualname__] == [module, name]
    if is_live and is_flattened(there):
        names, context = cast("Any", there).__tensor_flatten__()
        inner = [getattr(there, one) for one in names]
        are_filled = all(a is b for a, b in zip(inner, tensors.values(), strict=False))
        if are_filled and list(tensors) == list(names) and context == saved["context"]:
            return there
    kind = live if is_live else loaded_class(module, name)
    is_tensor = kind is not None and issubclass(kind, torch.Tensor)
    if not is_tensor or not hasattr(kind, "__tensor_unflatten__"):
        sentence = f"it has tensors of the class {module}.{name}, and no such class is imported"
        if sentence not in work.problems:
            work.problems.append(sentence)
            work.ways_out.append(
                f"import {module} before the restore, or leave the entry with these tensors out of "
                "the state, with strict=False"
            )
        return None
    try:
        made = cast("Any", kind).__tensor_unflatten__(
            tensors, saved["context"], torch.Size(saved["size"]), tuple(saved["stride"])
        )
    except Exception as error:  # of the class's own code
        work.problems.append(
            f"{module}.{name} cannot make a tensor of what was saved: {type(error).__name__}: "
            f"{error}"
        )
        work.ways_out.append(f"use the version of {module.partition('.')[0]} that saved it")
        return None
    return made


def _shard(local: object, there: object, work: Restoring) -> object:
    if not isinstance(local, torch.Tensor):
        return None  # a problem already
    if work.is_resized:
        sentence = (
            f"it has parts of distributed tensors of the class {type(local).__qualname__}, and "
            "only as many ranks as saved these parts can restore them"
        )
        if sentence not in work.problems:
            work.problems.append(sentence)
            work.ways_out.append(
                "restore with the number of ranks that saved it, or leave the entry with these "
                "tensors out of the state, with strict=False"
            )
        return None
    if isinstance(there, torch.Tensor) and is_sharded(there):
        return there if _local(there) is local else sharded_like(local, there, work)
    return Shard(local)


def sharded_like(local: torch.Tensor, like: torch.Tensor, work: Restoring) -> object:
    """A distributed tensor of `local`, placed as `like` is."""
    if not is_sharded(like) or _local(like).shape != local.shape:
        work.problems.append(
            f"a part of {list(local.shape)} of a distributed tensor was saved, and the one in the "
            f"state has {list(_local(like).shape if is_sharded(like) else like.shape)}"
        )
        return None
    from torch.distributed.tensor import DTensor

    its = cast("DTensor", like)
    return DTensor.from_local(
        local, its.device_mesh, its.placements, run_check=False, shape=its.shape,
        stride=its.stride(),
    )  # fmt: skip


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A flattened tensor on that device, made again of its inner tensors."""
    if tensor.device == device or is_sharded(tensor):
        return tensor
    names, context = cast("Any", tensor).__tensor_flatten__()
    inner: dict[str, torch.Tensor] = {}
    for name in names:
        one = cast("torch.Tensor", getattr(tensor, name))
        inner[name] = moved(one, device) if is_flattened(one) else one.to(device)
    return cast("Any", type(tensor)).__tensor_unflatten__(
        inner, context, tensor.shape, tensor.stride()
    )


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return cast("Any", tensor)._local_tensor
