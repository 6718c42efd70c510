"""The optimizer's step if ranks share some parameters and not others."""

import inspect
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer


class Stepper:
    """Steps an optimizer. An optimizer that works on lists of tensors gets each kind of tensors
    separately.

    With `fused` or `foreach`, torch refuses lists whose tensors are distributed over different
    ranks, or partly not at all. The parameter groups are not changed, because checkpoints save
    them. Instead the gradients of other kinds are hidden, because an optimizer skips parameters
    without a gradient.
    """

    def __init__(self, optimizer: Optimizer, parameters: list[nn.Parameter]) -> None:
        self._optimizer = optimizer
        kinds: dict[Any, list[nn.Parameter]] = {}
        for one in parameters:
            mesh = one.device_mesh if isinstance(one, DTensor) else None
            kinds.setdefault(mesh, []).append(one)
        self._kinds = list(kinds.values())

    def step(self) -> None:
        groups = self._optimizer.param_groups
        takes_lists = any(group.get("fused") or group.get("foreach") for group in groups)
        if len(self._kinds) < 2 or not takes_lists:
            self._optimizer.step()
            return
        held = {one: one.grad for kind in self._kinds for one in kind}
        # Hooks of a step are called once for all kinds, because some of them count training steps.
        alone: Any = inspect.unwrap(type(self._optimizer).step)
        for kind in self._kinds:
            for one in held:
                one.grad = None
            for one in kind:
                one.grad = held[one]
            if kind is self._kinds[-1]:
                self._optimizer.step()
            else:
                with torch.no_grad():
                    alone(self._optimizer)
        for one, gradient in held.items():
            one.grad = gradient
