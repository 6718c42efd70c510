"""Common parts of the executors of a plan."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard

from paceline.parallel import batch as batches
from paceline.parallel import selective
from paceline.parallel.batch import Loss
from paceline.parallel.describe import Study
from paceline.parallel.errors import PlanError
from paceline.parallel.execute.busy import Busy
from paceline.parallel.layers import Layers
from paceline.parallel.plan import ParallelPlan, Place
from paceline.parallel.trace import computing


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A rank's part of a plan, with the model, the device and the process groups for it."""

    model: nn.Module
    study: Study
    plan: ParallelPlan
    place: Place | None
    device: torch.device
    loss: Loss
    example: Any
    precision: str
    # All ranks make the groups of the plan in the same order. None: the group has one rank.
    replicas: "dist.ProcessGroup | None"  # the ranks with the same part of the same stage
    pipeline: "dist.ProcessGroup | None"  # the stages of one part of one replica
    tensor: "dist.ProcessGroup | None" = None  # the parts of one stage of one replica
    copies: "dist.ProcessGroup | None" = None  # of a weight that the first and last layer share

    @property
    def layers(self) -> Layers:
        return self.study.layers

    @property
    def share(self) -> int:
        """Samples of this rank's replica in a step."""
        return 0 if self.place is None else self.plan.shares[self.place.replica]

    def computing(self) -> Any:
        """The context of a forward pass."""
        return computing(self.precision, self.device.type)


class Executor(ABC):
    """Runs the forward and backward passes of a step. Gradients are those of the mean loss over
    the global batch.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.model = work.model  # this rank's part, with the names of the undivided model
        # Groups over which squared gradients are summed to get the whole model's norm.
        self.norm_groups: list[dist.ProcessGroup] = []
        self.busy = Busy(work.device)  # with the passes of a stage; else nothing is counted
        # Called when this rank's own work for a step is done, and only waiting follows.
        self.worked: Callable[[], None] = _nothing

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters of this rank's optimizer."""
        return [one for one in self.model.parameters() if one.requires_grad]

    @abstractmethod
    def step(self, inputs: Any, targets: Any) -> torch.Tensor:
        """Compute the gradients of a step. Returns this rank's summand of the mean loss over the
        global batch.
        """

    @abstractmethod
    def evaluate(self, inputs: Any, targets: Any) -> torch.Tensor:
        """The sum of the samples' losses, without gradients; 0 on a rank that computes no loss."""

    def owned(self) -> dict[str, torch.Tensor]:
        """The tensors of this rank's part of the model, each undivided."""
        with torch.no_grad():
            return {
                name: whole_of(one) if isinstance(one, DTensor) else one.detach()
                for name, one in self.model.state_dict().items()
                if isinstance(one, torch.Tensor)
            }

    def clip(self, limit: float | None) -> torch.Tensor:
        """Returns the norm of the whole model's gradients. Scales them down if it is above
        `limit`.
        """
        total = torch.zeros((), device=self.work.device)
        gradients: list[torch.Tensor] = []
        norms: list[torch.Tensor] = []
        for one in self.parameters:
            found = local_gradient(one)
            if found is None:
                continue
            gradients.append(found)
            if self._counts(one):
                norms.append(torch.linalg.vector_norm(found.float()))
        if norms:
            total = torch.stack(norms).square().sum()
        for group in self.norm_groups:
            dist.all_reduce(total, group=group)
        norm = total.sqrt()
        if limit is not None:
            scale = torch.clamp(limit / (norm + 1e-6), max=1.0)
            for one in gradients:
                one.mul_(scale)
        return norm


    def _counts(self, parameter: nn.Parameter) -> bool:
        """Whether this rank's part of a parameter counts in the norm. A parameter that several
        ranks hold whole counts once.
        """
        place = self.work.place
        if place is None or place.part == 0 or not isinstance(parameter, DTensor):
            return place is None or place.part == 0
        names = parameter.device_mesh.mesh_dim_names or ()
        return "tensor" in names and parameter.placements[names.index("tensor")].is_shard()


def _nothing() -> None:
    pass


class Idle(Executor):
    """A rank that the plan does not use. It has no part of the model: weights that are never
    trained would differ from the others', and no other number of ranks could restore them.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.model = nn.Module()

    @property
    def parameters(self) -> list[nn.Parameter]:
        return []

    def step(self, inputs: Any, targets: Any) -> torch.Tensor:
        return torch.zeros((), device=self.work.device)

    evaluate = step

    def owned(self) -> dict[str, torch.Tensor]:
        return {}


def local_gradient(parameter: nn.Parameter) -> torch.Tensor | None:
    """This rank's part of a gradient, in the memory of the gradient itself."""
    found = parameter.grad
    if not isinstance(found, DTensor) or not isinstance(parameter, DTensor):
        return found
    if found.placements != parameter.placements:
        found = parameter.grad = found.redistribute(placements=parameter.placements)
    return found.to_local()


def whole_of(tensor: DTensor) -> torch.Tensor:
    """The undivided tensor. Every rank of its mesh must call this."""
    if tensor.placements == (Shard(0),):
        return _joined(tensor)
    # One dimension at a time, the last one first: torch warns of two gathers at once and may mix up
    # their order.
    for place, placement in enumerate(tensor.placements[:-1]):
        if not placement.is_replicate():
            placements = list(tensor.placements)
            placements[place] = Replicate()
            tensor = tensor.redistribute(placements=placements)
    return tensor.full_tensor()


def _joined(tensor: DTensor) -> torch.Tensor:
    """The parts of FSDP2, put together. DTensor's way crashes over gloo with a GPU's tensors."""
    mesh, part = tensor.device_mesh, tensor.to_local()
    rows = -(-tensor.shape[0] // mesh.size())  # of all ranks but the last ones
    padded = part.new_zeros((rows, *tensor.shape[1:]))
    padded[: part.shape[0]] = part
    whole = part.new_empty((rows * mesh.size(), *tensor.shape[1:]))
    dist.all_gather_into_tensor(whole, padded, group=mesh.get_group())
    return whole[: tensor.shape[0]]


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that ranks may share."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def as_part_of(whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """A tensor that is distributed like `whole`, with `part` as this rank's part."""
    if not isinstance(whole, DTensor):
        return part
    return DTensor.from_local(
        part, whole.device_mesh, whole.placements, run_check=False,
        shape=whole.shape, stride=whole.stride(),
    )  # fmt: skip


def must_have_calls(owner: object, calls: tuple[str, ...], plan: str) -> None:
    """Raise if this torch lacks a function that the plan needs; the error names it."""
    for name in calls:
        if not hasattr(owner, name):
            raise PlanError(
                what=f"this torch cannot carry out the plan: {plan}",
                where=f"torch {torch.__version__}",
                why=f"it has no {getattr(owner, '__name__', 'torch')}.{name}",
                fix="a newer torch, or wishes that leave this plan out",
            )


def must_take(call: Callable[..., Any], option: str, plan: str) -> None:
    """Raise if this torch's function lacks an option that the plan needs; the error names it."""
    if option not in inspect.signature(call).parameters:
        raise PlanError(
            what=f"this torch cannot carry out the plan: {plan}",
            where=f"torch {torch.__version__}",
            why=f"its {call.__name__} has no {option}",
            fix="a newer torch, or ranks that rise from stage to stage",
        )


def recompute(work: Work, model: nn.Module, names: list[str]) -> None:
    """Make the backward pass compute the forward pass of these layers again, as the plan says.

    Selective recomputation leaves out layers of which nothing is kept: they save what they need.
    """
    if work.plan.recompute == "none":
        return
    from torch.distributed._composable.checkpoint_activation import checkpoint
    from torch.utils import checkpoint as checkpoints

    options: dict[str, Any] = {}
    if work.plan.recompute == "selective":
        must_have_calls(checkpoints, ("create_selective_checkpoint_contexts", "CheckpointPolicy"),
                        work.plan.told())  # fmt: skip
        rows = dict(zip(work.layers.names, work.study.rows, strict=True))
        names = [name for name in names if "selective" in rows[name]]
        options["context_fn"] = selective.contexts
    for name in names:
        module = model.get_submodule(name)
        if any(True for _ in module.parameters()):
            checkpoint(module, **options)


def mean_loss(work: Work, output: Any, targets: Any) -> torch.Tensor:
    """The loss of the script, which has to be one number."""
    return batches.one_number(work.loss(output, targets))


def summed_loss(work: Work, model: nn.Module, inputs: Any, targets: Any) -> torch.Tensor:
    """The sum of the losses of these samples, without gradients."""
    with torch.no_grad(), work.computing():
        output = batches.call(model, inputs)
        return mean_loss(work, output, targets).float() * batches.samples(inputs)
