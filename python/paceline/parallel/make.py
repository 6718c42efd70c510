"""From a model to a job: describe, agree on a plan, divide."""

import atexit
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline._base import arguments, launch
from paceline._checkpoint.checkpoint import BaseCheckpointer
from paceline._rank import planned
from paceline.parallel import device as devices
from paceline.parallel import profile_run
from paceline.parallel.agree import Answer, Kept, Question, agree
from paceline.parallel.asked import Asked
from paceline.parallel.batch import Loss
from paceline.parallel.compiled import CHOICES, Compile, compile_blocks
from paceline.parallel.describe import PRECISIONS, MakeOptimizer, Study, study, text_of
from paceline.parallel.errors import PlanError
from paceline.parallel.execute import Work, executor_for, must_take, pairs_of
from paceline.parallel.given import must_be_given, must_be_made
from paceline.parallel.job import CORRECTED, Job, MakeScheduler, PlanNote, Whole
from paceline.parallel.move import Mover, may_move, told_as
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.planning_run import PLANNING, end_with
from paceline.parallel.probe import measure
from paceline.parallel.store import Talk
from paceline.parallel.told import tell_agent, told_of_move

_WHERE = "parallelize"
_PLAN_BYTES_MAX = 32 << 20
# Axes of a plan that a script may limit.
_WISHES = ("data", "pipeline", "tensor", "shard", "recompute", "schedule", "micro_batches",
           "virtual_stages", "sequence")  # fmt: skip


def parallelize(
    model: nn.Module,
    *,
    optimizer: MakeOptimizer,
    loss: Loss,
    example: object,
    global_batch: int,
    clip: float | None = None,
    precision: str = "fp32",
    scheduler: MakeScheduler | None = None,
    plan: str | dict[str, Any] | None = None,
    cluster: str | dict[str, Any] | None = None,
    wishes: dict[str, list[Any]] | None = None,
    checkpointer: Any = None,
    compiled: Compile = False,
) -> Job:
    """Divide a model over the ranks of the world by a plan that is chosen for their devices.

    Every rank calls it with the same arguments. docs/guides/planning.md has examples.

    Args:
        model: changed in place: afterwards it has this rank's part, with the weights of rank 0.
        optimizer: a function that makes an optimizer of parameters.
        loss: a function of outputs and targets that returns the mean over the samples.
        example: a batch; only the shapes and types of its tensors are used.
        global_batch: samples of one step over all ranks.
        clip: the largest norm of the whole model's gradients. None: no limit.
        precision: "fp32", or "bf16" for matrix products, with autocast.
        scheduler: makes a learning-rate scheduler of an optimizer; it advances at each step.
        plan: a plan to carry out, in the form of `paceline plan --json`. None: the best one.
        cluster: the devices and links to plan for. None: they are measured, in 2 s at most.
        wishes: limits of the search, such as {"pipeline": [1, 2], "recompute": ["none"]}.
        checkpointer: the plan in its newest checkpoint is used again for the same devices.
        compiled: "auto" compiles the model's repeated block where that makes steps faster.

    Raises:
        PlanError: there is no such plan. Raised on all ranks, before the first collective.
    """
    planned.note()
    _check(global_batch, precision, clip, checkpointer, compiled)
    must_be_given(model, optimizer=optimizer, loss=loss, scheduler=scheduler)
    studied = study(model, example, loss, optimizer=optimizer, precision=precision,
                    world_size=_world_size())  # fmt: skip
    _leave_out_sends(studied.summary)
    question = _question(studied, _wishes(global_batch, wishes))
    _must_be_real(model)
    begin_world()
    talk, place = Talk.of_world(), devices.device()
    devices.settle(place)
    if profile_run.is_asked():
        profile_run.end_with_block(model, studied, place, talk)

    def measured(names: list[list[Any]]) -> str | None:
        return measure(model, studied, place, talk, names) if cluster is None else _text(cluster)

    answer = _agreed(talk, question, place, plan, _kept(checkpointer), measured)
    _spread_weights(model.to(place))
    work = _work(model, studied, answer.plan, talk, place, loss, example, precision)
    answer = _told_of(answer, compile_blocks(work, talk, compiled))
    return _job(work, answer, optimizer, scheduler, clip, question, checkpointer)


def _told_of(answer: Answer, compiled: str) -> Answer:
    """The answer, with a word on compiled blocks if the script asked for them."""
    return replace(answer, because=f"{answer.because}; {compiled}") if compiled else answer


def _agreed(
    talk: Talk,
    question: Question,
    place: torch.device,
    plan: str | dict[str, Any] | None,
    kept: Kept | None,
    measured: Callable[[list[list[Any]]], str | None],
) -> Answer:
    """Return the plan of all ranks. Rank 0 reports it to its agent, so that people see it."""
    given, flag = _given(plan)
    answer = agree(
        talk, question, devices.name_of(place),
        given=given, flag=flag, kept=kept, measure=measured,
        memory_bytes=devices.memory_of(place, devices.local_ranks(talk.world_size)),
    )  # fmt: skip
    tell_idle(answer, talk.rank)
    if talk.rank == 0:
        tell_agent(question, answer)
    return answer


def _given(plan: str | dict[str, Any] | None) -> tuple[str | None, str]:
    """The plan to carry out, and the flag that gives it if the script does not."""
    if plan is not None:
        return _text(plan), ""
    path = launch.required_plan()
    if path is None or path == "auto":
        return None, ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_PLAN_BYTES_MAX + 1), f"--plan {path}"
    except (OSError, UnicodeDecodeError) as error:
        fix = "a file that every host has, or --plan auto"
        raise PlanError(what="the plan's file cannot be read", where=f"--plan {path}",
                        why=str(error), fix=fix, is_final=False) from error  # fmt: skip


def _question(studied: Study, wishes: dict[str, Any]) -> Question:
    """The question to the planner. A planning run ends the process here."""
    asked = _with_annotations(wishes, studied.asked)
    question = Question(text_of(studied.summary), asked)
    end_with(question.summary, json.dumps(question.wishes))
    return question


def tell_idle(answer: Answer, rank: int) -> None:
    """Rank 0 prints which ranks the plan does not use."""
    plan = answer.plan
    if plan.unused and rank == 0:
        one = len(plan.unused) == 1
        logging.getLogger("paceline").warning(
            "%s %s nothing to do under the plan %s: %s",
            f"rank {plan.unused[0]}" if one else "ranks " + _few(plan.unused),
            "has" if one else "have", plan.told(), plan.because or answer.because,
        )  # fmt: skip


def _few(ranks: list[int]) -> str:
    told = ", ".join(map(str, ranks[:8]))
    return told if len(ranks) <= 8 else f"{told}, … ({len(ranks)} in all)"


def _job(
    work: Work,
    answer: Answer,
    optimizer: MakeOptimizer,
    scheduler: MakeScheduler | None,
    clip: float | None,
    question: Question,
    checkpointer: Any,
) -> Job:
    def retell(plan: ParallelPlan) -> None:
        tell_agent(question, replace(answer, plan=plan, because=CORRECTED))

    def ask_for(plan: ParallelPlan) -> str:
        return told_of_move(question, told_as(answer, plan))

    whole = _whole(work)
    executor = executor_for(work)
    made = optimizer(executor.parameters) if executor.parameters else None
    if made is not None or executor.parameters:
        must_be_made(made)
    steps = scheduler(made) if scheduler is not None and made is not None else None
    note, mover = PlanNote(answer.kept), None
    if may_move(answer, checkpointer):
        mover = Mover(work, executor.busy, answer, question, checkpointer, note.coming, ask_for)
    return Job(executor, answer, made, steps, whole, clip, retell, note, mover)


def _check(
    global_batch: int, precision: str, clip: float | None, checkpointer: object, compiled: Compile
) -> None:
    arguments.count(_WHERE, "global_batch", global_batch)
    arguments.one_of(_WHERE, "precision", precision, PRECISIONS)
    arguments.one_of(_WHERE, "compiled", compiled, CHOICES)
    if clip is not None:
        arguments.number(_WHERE, "clip", clip, least=1e-30, most=1e30, fix="clip=1.0",
                         wanted="a number above 0, or None")  # fmt: skip
    if checkpointer is not None and not isinstance(checkpointer, BaseCheckpointer):
        raise arguments.refuse(_WHERE, "checkpointer", checkpointer, "a Checkpointer, or None",
                               'checkpointer=paceline.torch.Checkpointer("runs/gpt")')  # fmt: skip


def _text(value: str | dict[str, Any]) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _wishes(global_batch: int, limits: dict[str, list[Any]] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"global_batch": global_batch}
    for name, value in (limits or {}).items():
        arguments.one_of(_WHERE, "a wish", name, _WISHES)
        if not isinstance(value, list) or not value:
            raise arguments.refuse(_WHERE, f"wishes[{name!r}]", value, "a list of what is allowed",
                                   'wishes={"pipeline": [1, 2]}')  # fmt: skip
        # A plan of one stage has no schedule, whatever schedules are allowed for pipelines.
        found[name] = ["none", *value] if name == "schedule" and "none" not in value else value
    return found


def _with_annotations(wishes: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """The wishes of the call together with those of the annotations. Both have to be met."""
    for axis, values in asked.wishes.items():
        if not set(values) & set(wishes.get(axis, values)):
            raise PlanError(
                what=f"the wishes for {axis} and an annotation do not go together",
                where=_WHERE,
                why=f"wishes allow {wishes[axis]}, and {asked.because[axis]}: {values[0]}",
                fix=f"leave {axis} out of wishes, or {values[0]} in them",
            )
        wishes[axis] = values
    return {**wishes, "because": asked.because} if asked.because else wishes


def _world_size() -> int | None:
    """The present or future number of ranks; None in a planning run, which is for other devices."""
    if os.environ.get(PLANNING):
        return None
    if dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1"))


def _leave_out_sends(summary: dict[str, Any]) -> None:
    """Leaves out what the world's backend does not carry, whatever the model is."""
    ranks = _world_size()
    why = "" if ranks is None else devices.no_sends(devices.device(), ranks)
    for axis in ("no_pipeline", "no_tensor"):
        summary[axis] = summary[axis] or why


def _must_be_real(model: nn.Module) -> None:
    empty = [name for name, one in model.named_parameters() if one.is_meta]
    if empty:
        raise PlanError(
            what="the model has no tensors to train",
            where=f"{type(model).__qualname__}.{empty[0]}",
            why="it is on the meta device",
            fix="make the model on the CPU or on a device",
        )


def begin_world() -> None:
    """Form the process group from the launcher's variables, if the script has not done so."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if not dist.is_initialized() and ranks > 1:
        dist.init_process_group(devices.backend(devices.local_ranks(ranks)))
        atexit.register(_end_world)


def _end_world() -> None:
    """Destroy the process group: threads of gloo that still run at the interpreter's end would
    abort it.
    """
    if dist.is_initialized():
        dist.destroy_process_group()


def _kept(checkpointer: Any) -> Kept | None:
    """The plan of the newest checkpoint, if it has one.

    It is read without `restore`, because `restore` makes an arena for saves of its state. An arena
    for the plan alone could replace the one with the checkpoint that is still in memory.
    """
    if checkpointer is None:
        return None
    note = PlanNote(None)
    with checkpointer._calls.entered("restore"):
        answer = checkpointer._ask_restore()
        if answer.get("damaged") or answer.get("from") == "nothing":
            return None  # the script's own restore reports the damage
        checkpointer._fill({"plan": note}, answer, strict=False)
        if note.found is not None and note.found_next and checkpointer.is_stored(answer):
            # In memory each rank has its part by the plan before; storage has all parts.
            return replace(note.found, plan=note.found_next)
    return note.found


def _spread_weights(model: nn.Module) -> None:
    """Copy the parameters and buffers of rank 0 to all ranks."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    with torch.no_grad():
        for one in [*model.parameters(), *model.buffers()]:
            whole = one.detach().contiguous()
            dist.broadcast(whole, 0)
            if whole.data_ptr() != one.data_ptr():
                one.copy_(whole)


def _work(
    model: nn.Module,
    studied: Study,
    plan: ParallelPlan,
    talk: Talk,
    place: torch.device,
    loss: Loss,
    example: object,
    precision: str,
) -> Work:
    """Make the process groups of the plan. Every rank makes all of them, in the same order."""
    made: dict[tuple[int, ...], Any] = {}

    def group(ranks: list[int]) -> Any:
        key = tuple(sorted(ranks))
        if len(key) == 1:
            return None
        if key == tuple(range(talk.world_size)):
            return dist.group.WORLD
        if key not in made:
            made[key] = dist.new_group(list(key))
        return made[key]

    def in_order(ranks: list[int]) -> Any:
        # torch's schedules with virtual stages give stage i to the i-th rank of the group.
        # `new_group` sorts the ranks by their numbers, unless it is told not to.
        if not plan.orders_many or ranks == sorted(ranks):
            return group(ranks)
        must_take(dist.new_group, "sort_ranks", plan.told())
        return dist.new_group(ranks, sort_ranks=False)

    stages = range(len(plan.stages))
    replicas = [[group(ranks) for ranks in plan.replicas(stage)] for stage in stages]
    parts = [[group(ranks) for ranks in plan.parts(stage)] for stage in stages]
    pipelines = [in_order(ranks) for ranks in plan.pipelines()]
    copies = {}
    if plan.is_pipeline and studied.ties:
        copies = {rank: group(pair) for pair in pairs_of(plan) for rank in sorted(pair)}
    own = plan.place(talk.rank)
    return Work(
        model=model, study=studied, plan=plan, place=own, device=place, loss=loss, example=example,
        precision=precision,
        replicas=None if own is None else replicas[own.stage][own.part],
        pipeline=None if own is None else pipelines[own.replica * plan.tensor + own.part],
        tensor=None if own is None else parts[own.stage][own.replica],
        copies=copies.get(talk.rank),
    )  # fmt: skip


def _whole(work: Work) -> list[Whole]:
    """The tensors of the undivided model. A tensor that is in no layer belongs to the first
    stage.
    """
    stages = work.plan.stages
    owners: dict[str, int] = {}
    for stage in stages:
        names = [one for begin, end in stage.chunks for one in work.layers.names[begin:end]]
        for name in names:
            for key in work.model.get_submodule(name).state_dict():
                owners.setdefault(f"{name}.{key}" if name else key, stage.ranks[0])
    return [
        Whole(name, tuple(one.shape), one.dtype, owners.get(name, stages[0].ranks[0]))
        for name, one in work.model.state_dict().items()
        if isinstance(one, torch.Tensor)
    ]
