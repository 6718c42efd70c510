"""Layers that several ranks share: DTensor's `parallelize_module` over the ranks of a replica.

Each rank has a part of the weights and computes all samples of its replica. Inputs and outputs of
modules are ordinary tensors, so the model's own code runs unchanged.

If the plan divides sequences too, each rank has a part of the tokens between divided regions. Norms
and sums of blocks then work on that part. A region's input is gathered and its output scattered.
Before the first block of a stage all ranks have all tokens, and behind the last one again, because
the model's own code makes positions and masks of them.
"""

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from paceline.parallel.errors import PlanError
from paceline.parallel.execute.common import Work, local_gradient, must_have_calls
from paceline.parallel.tensor import SUMMED, SequenceParts, sequence_of

_TOKENS = 1  # the dimension of a sequence's tokens


def mesh_of(work: Work) -> DeviceMesh:
    """The mesh of the ranks that share layers. With shards, replicas are its first dimension."""
    place, plan = work.place, work.plan
    assert place is not None and work.tensor is not None
    must_have_calls(DeviceMesh, ("from_group",), plan.told())
    if not plan.shard:
        return DeviceMesh.from_group(work.tensor, work.device.type, mesh_dim_names=("tensor",))
    assert work.replicas is not None
    rows = torch.tensor(rows_of(plan.parts(place.stage), plan.told()))
    return DeviceMesh.from_group(
        [work.replicas, work.tensor], work.device.type, rows,
        mesh_dim_names=("data", "tensor"),
    )  # fmt: skip


def rows_of(parts: list[list[int]], plan: str = "") -> list[list[int]]:
    """The replicas in the order of their ranks. Each is a list of the ranks that share its layers.

    torch's groups are in the order of their ranks, so columns have to be as well.
    """
    rows = sorted(parts)
    for first, second in pairwise(rows):
        if any(a >= b for a, b in zip(first, second, strict=True)):
            raise PlanError(
                what=f"these ranks cannot share layers and shards: {plan}",
                where=f"ranks {parts}",
                why="the ranks of one replica lie between those of another",
                fix='ranks in the order of the replicas, or wishes={"shard": [False]}',
            )
    return rows


class Divided:
    """This rank's part of the layers of its stage. The model is changed in place."""

    def __init__(
        self, work: Work, model: nn.Module, mesh: DeviceMesh, chunks: list[list[str]]
    ) -> None:
        from torch.distributed.tensor import parallel

        place = work.place
        assert place is not None and work.tensor is not None
        must_have_calls(parallel, ("parallelize_module", "ColwiseParallel", "RowwiseParallel"),
                        work.plan.told())  # fmt: skip
        self._group, self._device = work.tensor, work.device
        self._first = work.plan.parts(place.stage)[place.replica][0]
        apply: Any = parallel.parallelize_module
        # All ranks have the whole weights already, so none are sent. An older torch sends them
        # again.
        known = inspect.signature(apply).parameters
        options: dict[str, Any] = {"src_data_rank": None} if "src_data_rank" in known else {}
        own = mesh["tensor"]
        self._summed: list[nn.Module] = []
        sequences = _Sequences(work, model, own, chunks) if work.plan.sequence else None
        for name, style in work.study.division.styles.items():
            module = _found(model, name)
            if module is None or not any(True for _ in module.parameters()):
                continue  # another stage has it
            if style == SUMMED:
                self._summed.append(module)
            else:
                scatters = style == "rowwise" and sequences is not None and sequences.has(name)
                apply(module, own, _style(style, scatters=scatters), **options)
                if work.plan.shard and style == "colwise_gather_output":
                    # An in-place operation on a view would remove FSDP2's hook.
                    module.register_forward_hook(_copied)
        if sequences is not None:
            self._summed += sequences.norms

    def begin(self) -> None:
        """Set the same random state on all ranks that share layers; otherwise their sums would be
        wrong.

        Dropout between divided layers has to drop the same elements on each rank.
        """
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        moved = [one.to(self._device) for one in states]
        for one in moved:
            dist.broadcast(one, self._first, group=self._group)
        torch.set_rng_state(moved[0].cpu())
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(moved[1].cpu(), self._device)

    def end(self) -> None:
        """Add up the gradients of parameters that are whole on each rank but see only a part of
        the work.
        """
        parameters = [one for module in self._summed for one in module.parameters(recurse=False)]
        found = [one for one in map(local_gradient, parameters) if one is not None]
        for kind in {one.dtype: None for one in found}:  # one sum for each type, in this order
            same = [one for one in found if one.dtype == kind]
            flat = torch.cat([one.flatten() for one in same])
            dist.all_reduce(flat, group=self._group)
            for one, summed in zip(same, flat.split([one.numel() for one in same]), strict=True):
                one.copy_(summed.view_as(one))


class _Sequences:
    """Hooks that divide the sequences of a rank's blocks among the ranks that share them."""

    def __init__(
        self, work: Work, model: nn.Module, mesh: DeviceMesh, chunks: list[list[str]]
    ) -> None:
        self._mesh, self._told, self._copies = mesh, work.plan.told(), work.plan.shard
        self._tokens = 0  # of the sequences in the present pass
        self.norms: list[nn.Module] = []
        self._regions: list[str] = []
        for chunk in chunks:
            blocks = {name: parts for name in chunk if (parts := self._parts(work, model, name))}
            for parts in blocks.values():
                self.norms += [model.get_submodule(name) for name in parts.norms]
                for name in parts.regions:
                    region = model.get_submodule(name)
                    region.register_forward_pre_hook(self._gather, with_kwargs=True)
                self._regions += parts.regions
            if blocks:
                first, *_, last = [*blocks, *blocks]
                model.get_submodule(first).register_forward_pre_hook(self._begin, with_kwargs=True)
                model.get_submodule(last).register_forward_hook(self._end)

    def _parts(self, work: Work, model: nn.Module, name: str) -> SequenceParts | None:
        return sequence_of(name, model.get_submodule(name), work.study.division)

    def has(self, name: str) -> bool:
        """Whether the module is in a region whose output is scattered."""
        return any(name.startswith(f"{region}.") for region in self._regions)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        return _with_hidden(args, kwargs, self._part_of)

    def _gather(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        # The gathered input stays a DTensor. Then the gradients of all products with it are added
        # up before they are scattered, once.
        return _with_hidden(args, kwargs, self._gathered)

    def _end(self, module: nn.Module, args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (self._whole(output[0]), *output[1:])
        return self._whole(output)

    def _whole(self, part: torch.Tensor) -> torch.Tensor:
        whole = self._gathered(part).to_local()
        # An in-place operation on a view would remove FSDP2's hook.
        return whole.clone() if self._copies else whole

    def _part_of(self, whole: torch.Tensor) -> torch.Tensor:
        self._tokens, ranks = whole.shape[_TOKENS], self._mesh.size()
        if self._tokens < ranks:
            raise PlanError(
                what=f"a sequence of {self._tokens} tokens cannot be divided",
                where=f"Job.step, {self._told}",
                why=f"each of {ranks} ranks has a part of it",
                fix='longer sequences, or wishes={"sequence": [0]}',
            )
        found = DTensor.from_local(whole, self._mesh, [Replicate()], run_check=False)
        return found.redistribute(placements=[Shard(_TOKENS)]).to_local()

    def _gathered(self, part: torch.Tensor) -> DTensor:
        # The parts need not be equal: the last ranks may have fewer tokens, or none.
        whole = list(part.shape)
        whole[_TOKENS] = self._tokens
        strides = torch.empty(whole, device="meta").stride()
        found = DTensor.from_local(
            part, self._mesh, [Shard(_TOKENS)], run_check=False,
            shape=torch.Size(whole), stride=strides,
        )  # fmt: skip
        return found.redistribute(placements=[Replicate()])


def _with_hidden(args: Any, kwargs: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The arguments of a block or a region with another first tensor."""
    if args:
        return (change(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": change(kwargs["hidden_states"])}


def _copied(_: nn.Module, __: object, output: torch.Tensor) -> torch.Tensor:
    return output.clone()


def _found(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _style(name: str, *, scatters: bool = False) -> Any:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    if name == "colwise":
        return ColwiseParallel()
    if name == "colwise_gather_output":
        return ColwiseParallel(output_layouts=Replicate())
    if name == "embedding_rowwise":
        return RowwiseParallel(input_layouts=Replicate())
    return RowwiseParallel(output_layouts=Shard(_TOKENS)) if scatters else RowwiseParallel()
