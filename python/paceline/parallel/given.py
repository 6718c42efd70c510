"""Checks of what a script gives `parallelize`, before anything is described or measured.

    must_be_given(model, optimizer=make_adamw, loss=mse_loss, scheduler=None)

A wrong optimizer or loss would fail only in the first step, when all ranks have been divided.
"""

from torch import nn
from torch.optim import Optimizer

from paceline._base import arguments
from paceline.parallel.errors import PlanError

_WHERE = "parallelize"
# Modules of these packages divide a model themselves: DDP, DataParallel, FSDP, fully_shard.
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.fsdp.", "torch.distributed._composable.fsdp")
_MAKE = "optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-4)"


def must_be_given(model: object, *, optimizer: object, loss: object, scheduler: object) -> None:
    """Raises ArgumentError or PlanError, in four parts."""
    if not isinstance(model, nn.Module):
        raise arguments.refuse(_WHERE, "model", model, "an nn.Module", "model=nn.Sequential(…)")
    _must_be_whole(model)
    _must_learn(model)
    if isinstance(optimizer, Optimizer) or not callable(optimizer):
        wanted = "a function of parameters that returns an optimizer"
        raise arguments.refuse(_WHERE, "optimizer", optimizer, wanted, _MAKE)
    if not callable(loss):
        raise arguments.refuse(_WHERE, "loss", loss, "a function of outputs and targets",
                               "loss=torch.nn.functional.cross_entropy")  # fmt: skip
    if scheduler is not None and not callable(scheduler):
        raise arguments.refuse(_WHERE, "scheduler", scheduler, "a function of the optimizer",
                               "scheduler=lambda made: CosineAnnealingLR(made, 1000)")  # fmt: skip


def _must_be_whole(model: nn.Module) -> None:
    """Refuses a model that another tool has wrapped: gradients would be added up twice."""
    for name, module in model.named_modules():
        kinds = [kind for kind in type(module).__mro__ if kind.__module__.startswith(_WRAPPERS)]
        if kinds:
            raise PlanError(
                what="the model is divided already",
                where=name or type(model).__qualname__,
                why=f"it is a {kinds[0].__name__}, which divides or repeats a model itself",
                fix="give parallelize the model without it; the plan takes its place",
            )


def _must_learn(model: nn.Module) -> None:
    """Refuses a model without a parameter that gets a gradient."""
    if not any(one.requires_grad for one in model.parameters()):
        count = sum(1 for _ in model.parameters())
        raise PlanError(
            what="the model has nothing to train",
            where=type(model).__qualname__,
            why=f"none of its {count} parameters requires a gradient" if count else
                "it has no parameters",
            fix="requires_grad_(True) for those that are to learn",
        )  # fmt: skip


def must_be_made(made: object) -> None:
    """Refuses what the script's function returned, if it is no optimizer."""
    if not isinstance(made, Optimizer):
        wanted = "a function that returns an optimizer"
        raise arguments.refuse(_WHERE, "what optimizer returned", made, wanted, _MAKE)
