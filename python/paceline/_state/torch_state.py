"""The tensors and names in torch's modules, optimizers and sharded tensors."""

import dataclasses
from typing import TYPE_CHECKING, cast

import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from paceline._state.save_plan import Leaf, SavePlan, State
from paceline._state.stateful import holds_copies
from paceline._state.torch_wrappers import PlainNames, bare
from paceline.errors import CheckpointError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

# From this size on, frozen tensors get a file of their own, which costs up to 4 MiB of padding.
_FROZEN_BYTES_LEAST = 16 << 20


@dataclasses.dataclass(frozen=True)
class Named:
    """A tensor in a module's state_dict."""

    name: str  # plain, without the parts that wrappers add
    older: str  # with them, as older versions have saved it
    tensor: torch.Tensor
    container: dict[object, object] | None  # the dict that holds it, and its key there
    key: str


def module_tensors(module: torch.nn.Module, plan: SavePlan | None) -> list[Named]:
    """Everything in the module's state_dict but copies of what another rank saves."""
    names = PlainNames(module)
    homes: dict[str, tuple[dict[object, object], str]] = {}
    copies: set[str] = set()
    for start, one in names.modules:
        for held in (one._parameters, one._buffers):  # pyright: ignore[reportPrivateUsage]
            holder = cast("dict[object, object]", held)
            if plan is not None:
                plan.watch(holder)
            for name in held:
                homes[start + name] = (holder, name)
        if holds_copies(one):
            copies |= {start + name for name, _ in one.named_parameters(recurse=False)}
        children = cast("dict[object, object]", one._modules)  # pyright: ignore[reportPrivateUsage]
        if plan is not None:
            plan.watch(children)
            plan.links.extend((children, name, child) for name, child in children.items())
    state = module.state_dict(keep_vars=True)
    plain = names.table(state)
    found: list[Named] = []
    for name, tensor in state.items():
        if name in copies:
            continue
        home = homes.get(name)
        if home is not None and home[0].get(home[1]) is tensor:
            found.append(Named(plain[name], name, tensor, *home))
        else:
            # The module's own code names this tensor.
            found.append(Named(plain[name], name, tensor, None, name))
            if plan is not None:
                plan.is_lasting = False
    return found


def parameter_names(
    optimizer: Optimizer, state: State, *, is_plain: bool = True
) -> dict[object, str]:
    """The parameters' names in the modules of the state; a number for a parameter in none.

    `is_plain=False`: with the parts that wrappers add, as older versions have saved them.
    """
    known: dict[int, str] = {}
    for key, value in state.items():
        if isinstance(value, torch.nn.Module):
            module = bare(value, None)
            found = dict(module.named_parameters())
            table = PlainNames(module).table(found) if is_plain else {name: name for name in found}
            for name, parameter in found.items():
                known.setdefault(id(parameter), f"{key}.{table[name]}")
    names: dict[object, str] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            names[parameter] = known.get(id(parameter), str(len(names)))
    return names


def stepped_parameters(state: State) -> set[int]:
    """The ids of parameters that an optimizer of the state changes."""
    return {
        id(parameter)
        for value in state.values()
        if isinstance(value, Optimizer)
        for group in value.param_groups
        for parameter in group["params"]
    }


def with_frozen(leaves: list[Leaf]) -> list[Leaf]:
    """Mark parameters without gradients as frozen. A wrong mark is harmless: bytes are compared."""

    def is_frozen(leaf: Leaf) -> bool:
        found = leaf.found
        return isinstance(found, torch.nn.Parameter) and not found.requires_grad

    if sum(local_bytes(leaf.found) for leaf in leaves if is_frozen(leaf)) < _FROZEN_BYTES_LEAST:
        return leaves
    return [dataclasses.replace(leaf, is_frozen=is_frozen(leaf)) for leaf in leaves]


def is_sharded(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "device_mesh")


def is_told_replica(tensor: object) -> bool:
    """Whether a tensor declares that all ranks of its mesh hold the same one (a replica).

    Such replicas may differ by rounding if a kernel adds in any order. They still count as equal.
    """
    if not isinstance(tensor, torch.Tensor) or not is_sharded(tensor):
        return False
    return all(one.is_replicate() for one in cast("DTensor", tensor).placements)


def local_part(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...]]:
    """The part of a tensor in this process, and where it begins in the whole tensor."""
    if not is_sharded(tensor):
        return tensor, (0,) * tensor.dim()
    try:
        from torch.distributed.tensor import _utils
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor import _utils  # pyright: ignore

    sharded = cast("DTensor", tensor)
    shape, offset = _utils.compute_local_shape_and_global_offset(
        sharded.shape, sharded.device_mesh, sharded.placements
    )
    local = sharded._local_tensor  # pyright: ignore[reportPrivateUsage]
    if any(one.is_partial() for one in sharded.placements) or tuple(shape) != tuple(local.shape):
        raise CheckpointError(
            what="a distributed tensor is no box of its whole",
            where=f"a tensor of {list(sharded.shape)} placed as {sharded.placements}",
            why="each rank holds a sum that is not complete, or rows that are not next to another",
            fix="redistribute it to Shard and Replicate, with extents that the mesh divides",
            is_final=True,
        )
    return local, tuple(offset)


def local_bytes(tensor: object) -> int:
    if not isinstance(tensor, torch.Tensor) or is_lazy(tensor):
        return 0
    local, _offset = local_part(tensor)
    return local.numel() * local.element_size()


def has_own_elements(tensor: torch.Tensor) -> bool:
    """Whether no two elements share memory, judged by the strides."""
    if is_sharded(tensor):
        return True
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return not any(step == 0 and size > 1 for step, size in pairs)


def memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Begin and end address of its elements."""
    local, _offset = local_part(tensor)
    if local.numel() == 0 or local.is_meta or local.layout != torch.strided:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(local.shape, local.stride(), strict=True))
    begin = local.data_ptr()
    return begin, begin + (last + 1) * local.element_size()
