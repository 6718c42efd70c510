"""The optimizer's step where some parameters are shared by ranks and others are not."""

import inspect
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer


class Stepper:
    """Steps an optimizer. One that works on lists of tensors gets each kind of them alone.

    With `fused` or `foreach`, torch refuses lists of which some tensors are distributed over other
    ranks than the rest, or over none. Groups of parameters stay as the script made them, because
    checkpoints know them: an optimizer leaves out what has no gradient.
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
        # Hooks of a step are called once for all kinds: some count the steps of the training.
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
