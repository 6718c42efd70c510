"""Stages of unequal depth: torch's pipelining over a part of the layers.

A stage is the model without the layers of the others, so that its tensors keep the names that they
have in the undivided model. In a model of transformers, the layers of other stages are replaced by
modules that return their input. So the model's own forward pass makes masks and positions in each
stage.

With interleaved stages, a rank has several chunks of layers. One model holds all its layers, for
names, the optimizer and checkpoints. For each chunk there is a view of that model, which shares its
modules and passes the layers of the other chunks through.

If the first and the last layer share a weight, the stand-in for the layer of the other stage holds
it too. So optimizers of both stages know it by its first name in the undivided model.
"""

import copy
import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.parallel import batch as batches
from paceline.parallel.errors import PlanError
from paceline.parallel.execute.busy import Busy
from paceline.parallel.execute.common import (
    Executor,
    Work,
    mean_loss,
    must_have_calls,
    recompute,
)
from paceline.parallel.execute.copies import Copies, held_names
from paceline.parallel.execute.data import shared_parts
from paceline.parallel.execute.reduce import Reduction
from paceline.parallel.execute.shard import divide
from paceline.parallel.layers import Layers, shared_between
from paceline.parallel.trace import Form

# torch's classes by the schedule of the plan.
_SCHEDULES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved-1f1b": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
}


class _StandIn(nn.Module):
    """In place of a module of another stage. That stage saves what it holds under its names."""

    def __init__(self) -> None:
        super().__init__()
        self.holds_copies = True

    def hold(self, path: str, parameter: nn.Parameter) -> None:
        """Hold the parameter under that name, without any use for it."""
        first, _, rest = path.partition(".")
        if not rest:
            self.register_parameter(first, parameter)
            return
        if first not in self._modules:
            self.add_module(first, _StandIn())
        inner = self._modules[first]
        assert isinstance(inner, _StandIn)
        inner.hold(rest, parameter)


class _Skipped(_StandIn):
    """Replaces a layer of another stage: returns its first argument."""

    def __init__(self, replaced: nn.Module) -> None:
        super().__init__()
        # A model may read plain attributes of its layers, such as their kind of attention.
        for name, value in vars(replaced).items():
            if not name.startswith("_") and isinstance(value, (str, int, float)):
                setattr(self, name, value)

    def forward(self, hidden_states: Any, *_: Any, **__: Any) -> Any:
        return hidden_states


class _Added(_StandIn):
    """Replaces a module of the first stage whose output the model adds to that of its first
    layer.
    """

    def forward(self, first: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.zeros((), device=first.device)


class _StageModel(nn.Module):
    """The module for torch's PipelineStage: a tensor in, a tensor out."""

    def __init__(self, inner: nn.Module, work: Work, *, takes_hidden: bool) -> None:
        super().__init__()
        self.inner = inner
        self._work = work
        self._takes_hidden = takes_hidden

    def forward(self, first: torch.Tensor, **more: Any) -> torch.Tensor:
        with self._work.computing():
            output = self._output(first, more)
            # Where a backward pass is two, torch detaches a stage's output in place, which a view
            # does not allow. A model whose head is on another stage returns a view of its input.
            is_cut = self._work.plan.schedule == "zero-bubble" and output._is_view()
            return output.clone() if is_cut else output

    def _output(self, first: torch.Tensor, more: dict[str, Any]) -> torch.Tensor:
        if self._takes_hidden:
            batches.without_cache(self.inner, more)
            return batches.logits_of(self.inner(inputs_embeds=first, **more))
        if self._work.layers.kind == "transformers":
            return batches.call(self.inner, {"input_ids": first, **more})
        return batches.call(self.inner, first)


def cut(work: Work, kept: list[str]) -> nn.Module:
    """The model with only these layers, under their own names. It is changed in place."""
    layers, model = work.layers, work.model
    weights = {name: model.get_parameter(own) for name, own in held_names(work).items()}
    held = _holders(work)
    replaced = _replaced(layers, kept)
    for name in replaced:
        path, _, own = name.rpartition(".")
        stand_in = _stand_in(layers, name, model.get_submodule(name))
        if name == held:
            for whole, parameter in weights.items():
                stand_in.hold(whole.removeprefix(f"{name}."), parameter)
        setattr(model.get_submodule(path), own, stand_in)
    if layers.kind != "sequential":
        return model
    return _only(model, [name for name in layers.names if name in kept or name == held])


def _holders(work: Work) -> str:
    """The layer of another stage whose stand-in holds a weight here; "" if there is none."""
    names = held_names(work)
    if not names or work.place is None:
        return ""
    return work.layers.names[0 if work.place.stage else -1]


def _replaced(layers: Layers, kept: list[str]) -> list[str]:
    """The modules that have stand-ins where only these layers are."""
    found = [name for name in layers.names if name not in set(kept)]
    return found if layers.names[0] in kept else [*found, *layers.added, *layers.passed]


def _stand_in(layers: Layers, name: str, module: nn.Module) -> _StandIn:
    return _Added() if name in layers.added else _Skipped(module)


def _only(model: nn.Module, kept: list[str]) -> nn.Sequential:
    """An nn.Sequential of these layers of the model."""
    found = nn.Sequential()
    for name in kept:
        found.add_module(name, model.get_submodule(name))
    return found


def _view(layers: Layers, module: nn.Module, skipped: set[str], at: str = "") -> nn.Module:
    """A module that shares all children with `module`, except that `skipped` have stand-ins.

    `at`: the qualified name of the module.
    """
    found = copy.copy(module)
    children: dict[str, nn.Module | None] = {}
    for name, child in module._modules.items():
        whole = f"{at}.{name}" if at else name
        if child is not None and whole in skipped:
            children[name] = _stand_in(layers, whole, child)
        elif child is not None and any(one.startswith(f"{whole}.") for one in skipped):
            children[name] = _view(layers, child, skipped, whole)
        else:
            children[name] = child
    vars(found)["_modules"] = children
    return found


class Pipelined(Executor):
    """One stage of a pipeline. Replicas of a stage sum gradients after the last micro-batch."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        assert work.place is not None and work.pipeline is not None
        plan, self._number = work.plan, work.place.stage
        if why := work.study.summary["no_pipeline"]:
            raise PlanError(
                what="this model has no pipeline",
                where=f"parallelize, {plan.told()}",
                why=why,
                fix='a plan of one stage, or wishes={"pipeline": [1]}',
            )
        self._micro = work.share // plan.micro_batches
        forms = self._boundaries()
        shared = set(shared_between(work.model, work.layers))
        self._chunks = plan.stages[self._number].chunks
        names = [work.layers.names[begin:end] for begin, end in self._chunks]
        kept = [name for chunk in names for name in chunk]
        self.model = cut(work, kept)
        for chunk in names:
            self._must_learn(chunk)
        recompute(work, self.model, kept)
        self._divided, mesh = shared_parts(work, self.model, names)
        roots = [self._root_of(chunk) for chunk in names]
        self.norm_groups = [work.pipeline]
        if work.tensor is not None:
            self.norm_groups.append(work.tensor)
        if plan.shard and work.replicas is not None:
            for root, chunk in zip(roots, names, strict=True):
                divide(work, root, [self.model.get_submodule(one) for one in chunk], shared, mesh)
            self.norm_groups.append(work.replicas)
            self._reduction = Reduction([], None)
        else:
            self._reduction = Reduction(self.parameters, work.replicas)
        self._copies = Copies(work, self.model)
        self._schedule = self._made_schedule(roots, forms)

    def _root_of(self, chunk: list[str]) -> nn.Module:
        """The module for torch's stage of these layers."""
        work = self.work
        is_sequential = work.layers.kind == "sequential"
        inner = self.model
        if len(self._chunks) > 1:
            # FSDP2 takes a weight with all its names, so a stand-in is where the weight is used.
            has_end = {work.layers.names[0], work.layers.names[-1]} & set(chunk)
            whole = [_holders(work), *chunk] if has_end else chunk
            if is_sequential:
                inner = _only(inner, [name for name in work.layers.names if name in whole])
            else:
                inner = _view(work.layers, inner, set(_replaced(work.layers, whole)))
        takes_hidden = chunk[0] != work.layers.names[0] and not is_sequential
        return _StageModel(inner, work, takes_hidden=takes_hidden)

    def _must_learn(self, names: list[str]) -> None:
        modules = [self.model.get_submodule(name) for name in names]
        if not any(one.requires_grad for module in modules for one in module.parameters()):
            raise PlanError(
                what=f"stage {self._number} of the pipeline learns nothing",
                where=f"layers {names[0]} to {names[-1]}",
                why="torch's pipelining sends gradients through parameters of each stage",
                fix="fewer stages, or other layers in them",
            )

    def _boundaries(self) -> list[Form | None]:
        """The tensors between the stages for one micro-batch, and the inputs for the first
        stage.
        """
        study = self.work.study
        first = self._first(batches.split(self.work.example)[0])[0]
        found: list[Form | None] = [
            Form((self._micro, *first.shape[1:]), first.dtype, first.requires_grad)
        ]
        for _, end in self.work.plan.virtual():
            few, more = study.few[end - 1].output, study.more[end - 1].output
            found.append(few.scaled(more, self._micro) if few and more else None)
        return found

    def _first(self, inputs: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        """The tensor that enters the pipeline, and the further arguments that every stage gets."""
        if isinstance(inputs, dict) and self.work.layers.kind == "transformers":
            more: dict[str, Any] = dict(inputs)
            first = more.pop("input_ids", None)
            if isinstance(first, torch.Tensor):
                return first, more
        if isinstance(inputs, torch.Tensor):
            return inputs, {}
        raise PlanError(
            what="these inputs cannot enter a pipeline",
            where=f"parallelize, {self.work.plan.told()}",
            why="the first stage takes one tensor, or the `input_ids` of a model of transformers",
            fix='one tensor as inputs, or wishes={"pipeline": [1]}',
        )

    def _made_schedule(self, roots: list[nn.Module], forms: list[Form | None]) -> Any:
        from torch.distributed import pipelining

        plan = self.work.plan
        name = _SCHEDULES[plan.schedule]
        # torch's 1F1B needs a micro-batch for each stage. With fewer, no forward pass that another
        # stage waits for would come after a backward pass, so GPipe takes as long.
        if plan.micro_batches < len(plan.stages):
            name = "ScheduleGPipe"
        must_have_calls(pipelining, ("PipelineStage", name), plan.told())
        stages = [
            self._made_stage(root, chunk * len(plan.stages) + self._number, forms)
            for chunk, root in enumerate(roots)
        ]
        return getattr(pipelining, name)(
            stages if plan.orders_many else stages[0],
            plan.micro_batches, loss_fn=self._weighted, scale_grads=False,
        )  # fmt: skip

    def _made_stage(self, root: nn.Module, virtual: int, forms: list[Form | None]) -> Any:
        from torch.distributed import pipelining

        work, plan = self.work, self.work.plan
        assert work.place is not None
        before, after = forms[virtual], forms[virtual + 1]
        is_known = before is not None and after is not None and work.device.type == "cpu"
        stage = _timed(pipelining.PipelineStage, self.busy)(
            root,
            virtual,
            len(forms) - 1,
            work.device,
            input_args=_empty(before) if is_known else None,
            output_args=_empty(after) if is_known else None,
            group=work.pipeline,
        )
        # Schedules of several chunks set this map themselves: the group has the order of the
        # stages.
        order = dist.get_process_group_ranks(work.pipeline)
        ranks = plan.pipelines()[work.place.replica * plan.tensor + work.place.part]
        stage.stage_index_to_group_rank = {
            n: order.index(ranks[n % len(ranks)]) for n in range(len(forms) - 1)
        }
        return stage

    def _weighted(self, output: torch.Tensor, targets: Any) -> torch.Tensor:
        with self.busy.working(), self.work.computing():
            weight = self._micro / self.work.plan.global_batch
            return mean_loss(self.work, output, targets) * weight

    def step(self, inputs: Any, targets: Any) -> torch.Tensor:
        if self._divided is not None:
            self._divided.begin()
        losses = self._run(self._schedule.step, inputs, targets)
        self._reduction.finish()
        self._copies.sum()
        if self._divided is not None:
            self._divided.end()
        return losses

    def _counts(self, parameter: nn.Parameter) -> bool:
        return self._copies.counts(parameter) and super()._counts(parameter)

    def _run(self, run: Any, inputs: Any, targets: Any) -> torch.Tensor:
        """Run all micro-batches through the pipeline. Only the last stage has their losses."""
        first, options = self._first(inputs)
        if "return_outputs" in inspect.signature(run).parameters:
            options["return_outputs"] = False
        losses: list[torch.Tensor] = []
        is_last = self._number == len(self.work.plan.stages) - 1
        if is_last:
            options |= {"target": targets, "losses": losses}
        run(*([first] if self._number == 0 else []), **options)
        total = torch.zeros((), device=self.work.device)
        for one in losses:
            total += one.detach()
        return total

    def evaluate(self, inputs: Any, targets: Any) -> torch.Tensor:
        must_have_calls(type(self._schedule), ("eval",), self.work.plan.told())
        if batches.samples(inputs) != self.work.share:
            raise PlanError(
                what=f"a batch of {batches.samples(inputs)} samples cannot be evaluated",
                where=f"Job.evaluate, {self.work.plan.told()}",
                why=f"the pipeline works through {self.work.share} samples at once",
                fix="batches of job.loader(dataset)",
            )
        with torch.no_grad():
            found = self._run(self._schedule.eval, inputs, targets)
        return found * self.work.plan.global_batch  # the losses were weighted for a step


def _timed(kind: Any, busy: Busy) -> Any:
    """torch's stage, whose passes are timed without the waiting for other stages around them."""

    class Timed(kind):
        def forward_one_chunk(self, *args: Any, **options: Any) -> Any:
            with busy.working():
                return super().forward_one_chunk(*args, **options)

        def backward_one_chunk(self, *args: Any, **options: Any) -> Any:
            with busy.working():
                return super().backward_one_chunk(*args, **options)

        def backward_weight_one_chunk(self, *args: Any, **options: Any) -> Any:
            with busy.working():
                return super().backward_weight_one_chunk(*args, **options)

    return Timed


def _empty(form: Form | None) -> torch.Tensor | None:
    if form is None:
        return None
    empty = torch.empty(form.shape, dtype=form.dtype, device="meta")
    return empty.requires_grad_(form.needs_grad)
