"""How much a first save will hold, as the first steps of the optimizers show it.

A script that calls `restore` shows its state there. One that does not, or whose optimizer keeps
more than was expected, shows it here, and its slots are filled before the first save.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from weakref import WeakMethod

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from paceline._state.torch_state import local_bytes

# Of each tensor: its name and shape in the file's header, and a gap before it.
_TENSOR_BYTES = 256
_CONTAINERS_MAX = 4  # nested ones, in an optimizer's state


class FirstSteps:
    """Calls `tell(bytes, parameter)` once, when an optimizer steps for the second time.

    By then each optimizer of the training has stepped, and has its state. The hook stays until
    `end()`; after the call it does nothing. It does not keep the object alive whose method `tell`
    is.
    """

    def __init__(self, tell: Callable[[int, torch.Tensor], bool]) -> None:
        """`tell` returns False to be called again after the next step."""
        self._tell = WeakMethod(tell)
        self._bytes: dict[int, int] = {}  # of each optimizer that has stepped once
        self._is_told = False
        self._hook = register_optimizer_step_post_hook(self._after)

    def end(self) -> None:
        """Remove the hook."""
        self._hook.remove()

    def _after(self, optimizer: Optimizer, *_: object) -> None:
        if self._is_told:
            return
        if id(optimizer) not in self._bytes:
            self._bytes[id(optimizer)] = bytes_of(optimizer)
            return
        parameters = _parameters(optimizer)
        tell = self._tell()
        if tell is None:
            self._is_told = True
        elif parameters and not _is_captured():
            self._is_told = tell(sum(self._bytes.values()), parameters[0])


def bytes_of(optimizer: Optimizer) -> int:
    """The bytes of its parameters and of its state in this process."""
    tensors = [*_parameters(optimizer), *_tensors(cast("Any", optimizer.state), 0)]
    return sum(local_bytes(tensor) + _TENSOR_BYTES for tensor in tensors)


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _tensors(value: object, depth: int) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < _CONTAINERS_MAX and isinstance(value, Mapping):
        for one in cast("Mapping[object, object]", value).values():
            yield from _tensors(one, depth + 1)
    elif depth < _CONTAINERS_MAX and isinstance(value, list | tuple):
        for one in cast("list[object]", value):
            yield from _tensors(one, depth + 1)


def _is_captured() -> bool:
    """Whether the step is recorded for a CUDA graph, during which no memory may be pinned."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
