"""Moves layers once, where stages of a pipeline turn out to take another time than predicted.

Each rank times its own passes. If a stage takes 15 % more or less than predicted, and as much more
or less ten seconds later, rank 0 plans again with each device as fast as it was measured. One
window of steps proves nothing, because a load that passes would move layers for good. A plan that
is better by enough is agreed on and goes into the next checkpoint. When storage has it, the ranks
ask for a world that carries it out: the master starts them again without a failure, and they go on
after that step.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from paceline._base import launch
from paceline.errors import CheckpointError
from paceline.parallel import memory, planner
from paceline.parallel.agree import Answer, Question, compare
from paceline.parallel.errors import PlanError
from paceline.parallel.execute import Busy, Work
from paceline.parallel.execute.busy import WINDOW
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.store import Talk

OFF = 0.15  # of a stage's predicted time: from there on a plan counts as wrong
GAIN = 0.10  # of a step, as predicted; less does not pay for new processes and the risk
LASTING_SECONDS = 10.0  # for which a stage is off; a move costs about as much
_STEPS_MAX = WINDOW << 9  # after which the plan stays as it is
_STORE_SECONDS = 120.0  # for the checkpoint
_RESTART_SECONDS = 60.0  # for the master to end this world


@dataclass(slots=True)
class Coming:
    """The plan of the next world, as a checkpoint keeps it beside the present one."""

    plan: str = ""
    is_saved: bool = False  # by a save since it was agreed


@dataclass(frozen=True, slots=True)
class Found:
    """What rank 0 concludes from the measured times of all ranks."""

    plan: str  # "": the present one stays
    because: str
    is_over: bool  # nothing more is measured


class Mover:
    """Times the stages of a plan, and leads to a better one: see the head of this file."""

    def __init__(
        self,
        work: Work,
        busy: Busy,
        answer: Answer,
        question: Question,
        checkpointer: Any,
        coming: Coming,
        tell: Callable[[ParallelPlan], str],
    ) -> None:
        self._work, self._answer, self._question = work, answer, question
        self._busy, self._checkpointer, self._coming, self._tell = busy, checkpointer, coming, tell
        self._talk = Talk.of_world()
        self._steps, self._tries, self._is_over = 0, 0, False
        self._next_look = 2 * WINDOW  # the first passes make what the others use again
        self.evidence = Evidence()  # rank 0 alone uses it

    def begin_step(self) -> None:
        """Moves, if a checkpoint has the agreed plan. It then does not return but for a fault."""
        if self._coming.is_saved:
            self._coming.is_saved = False
            self._tries += 1
            if self._is_stored() and self._is_told():  # this world ends now
                threading.Event().wait(_RESTART_SECONDS)
                self._holds(f"the ranks were not started again in {_RESTART_SECONDS:.0f} s")
        if not self._is_over:
            self._busy.begin()

    def end_step(self) -> None:
        """Counts the step; looks at the times of all ranks after 16 steps, 32, 64 and so on."""
        if self._is_over:
            return
        self._steps += 1
        self._busy.end()
        if self._steps < self._next_look:
            return
        self._next_look *= 2
        mine = self._busy.take()
        found = Found(**self._talk.settle(f"look {self._steps}", lambda: mine, self._judge))
        self._is_over = found.is_over or self._steps >= _STEPS_MAX
        if found.plan:
            compare(self._talk, found.plan, self._question, self._answer.kept.devices)
            self._coming.plan, self._coming.is_saved = found.plan, False
            if self._talk.rank == 0:
                logging.getLogger("paceline").info("the next checkpoint moves layers: %s",
                                                   found.because)  # fmt: skip

    def _judge(self, rows: list[float]) -> dict[str, Any]:
        """Runs on rank 0. `rows`: seconds of each rank's passes in a step."""
        plan, layers = self._answer.plan, costs_of(self._work)
        cluster = memory.limited(
            self._answer.cluster, self._answer.kept.devices, memory.limits(self._question.digest)
        )
        ratios = ratios_of(plan, layers, cluster, rows)
        if not self.evidence.lasts(ratios):
            return asdict(Found("", "", is_over=False))
        faster = as_measured(cluster, plan, ratios)
        try:
            text = planner.choose(self._question.summary, faster, self._question.wishes)
        except PlanError:  # the present plan may be a given one, which no search finds
            return asdict(Found("", "", is_over=True))
        return asdict(better(plan, text, layers, faster, ratios, rows))

    def _is_stored(self) -> bool:
        """Whether storage has the save with the plan, whole. All ranks hear the same."""
        saves = self._checkpointer

        def mine() -> list[Any]:
            if saves._last is None or saves._left_out is not None:
                return ["the save was left out"]
            try:
                saves.wait_for(saves._last, "durable", _STORE_SECONDS)
            except (CheckpointError, TimeoutError) as error:
                return [str(error).split("\n")[0]]
            return ["", saves._last.branch, saves._last.step]

        def judge(rows: list[list[Any]]) -> str:
            failed = [row[0] for row in rows if row[0]]
            same = all(row == rows[0] for row in rows)
            return failed[0] if failed else "" if same else "the ranks saved different steps"

        return self._holds(self._talk.settle(f"stored {self._tries}", mine, judge))

    def _is_told(self) -> bool:
        """Whether rank 0 could report the coming plan to the master."""
        plan = ParallelPlan.parse(self._coming.plan)
        return self._holds(self._talk.decide(f"told {self._tries}", lambda: self._tell(plan)))

    def _holds(self, why_not: str) -> bool:
        """Whether the move goes on. If not, the plan stays, and so does all that was trained."""
        if why_not:
            self._coming.plan = ""
            if self._talk.rank == 0:
                logging.getLogger("paceline").warning("layers do not move: %s", why_not)
        return not why_not


def may_move(answer: Answer, checkpointer: Any) -> bool:
    """Whether layers of this plan may move; the same on all ranks.

    It needs a pipeline, the numbers that it was planned with, storage that the ranks read
    themselves, and a launcher that starts ranks again.
    """
    plan = answer.plan
    if not plan.is_pipeline or plan.tensor > 1 or plan.orders_many or checkpointer is None:
        return False
    if launch.agent_socket() is None or not answer.cluster:
        return False
    types = json.loads(answer.cluster)["types"]
    is_known = all(one["source"] != "not measured" for one in types)
    return is_known and str(checkpointer._directory).startswith("/")


# ---- what measured times say ----


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a layer for one sample. `fixed` bytes are read once in each pass."""

    flops: float
    saved: float
    fixed: float
    again: float = 0.0  # bytes and operations that selective recomputation computes again
    again_flops: float = 0.0


def costs_of(work: Work) -> list[Costs]:
    width = work.study.summary["bytes"]["compute"]
    found: list[Costs] = []
    for row in work.study.rows:
        keep = row.get("selective", {"kept": row["saved"], "flops": 0})
        held = row["parameters"] + row.get("copied", 0)  # each stage holds its copy
        found.append(Costs(row["flops"], row["saved"], held * width,
                           max(0, row["saved"] - keep["kept"]), keep["flops"]))  # fmt: skip
    return found


def stage_seconds(plan: ParallelPlan, layers: list[Costs], cluster: str) -> list[float]:
    """Predicted seconds of the passes of each stage in a step. Its replicas are alike."""
    fields = json.loads(cluster)
    kinds = {one["name"]: one for one in fields["types"]}
    types = [kinds[one["type"]] for one in fields["groups"] for _ in range(one["count"])]
    forwards = 4 if plan.recompute == "full" else 3  # a backward pass takes two forward passes
    found: list[float] = []
    for stage in plan.stages:
        total = 0.0
        for rank in stage.ranks:
            kind, place = types[rank], plan.place(rank)
            share = plan.shares[place.replica] if place is not None else 0
            for one in layers[stage.begin : stage.end]:
                samples = one.flops / kind["flops"] + one.saved / kind["bandwidth"]
                once = one.fixed / kind["bandwidth"] + kind["launch"]
                total += forwards * (share * samples + plan.micro_batches * once)
                if plan.recompute == "selective" and one.again:
                    again = one.again_flops / kind["flops"] + one.again / kind["bandwidth"]
                    total += share * again + plan.micro_batches * kind["launch"]
        found.append(total / len(stage.ranks))
    return found


def ratios_of(
    plan: ParallelPlan, layers: list[Costs], cluster: str, rows: list[float]
) -> list[float]:
    """For each stage, the measured time of its slowest replica divided by the predicted time.

    It is 0 where nothing was measured or predicted.
    """
    seconds = stage_seconds(plan, layers, cluster)
    return [
        max(rows[rank] for rank in stage.ranks) / one if one > 0 else 0.0
        for stage, one in zip(plan.stages, seconds, strict=True)
    ]


def is_off(ratios: list[float]) -> bool:
    return min(ratios) > 0 and any(abs(one - 1) > OFF for one in ratios)


class Evidence:
    """Looks that tell the same: `evidence.lasts([1.0, 2.1])` is true once they span long enough."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._first: list[float] = []  # ratios at the first of the looks that agree
        self._since = 0.0

    def lasts(self, ratios: list[float]) -> bool:
        """Whether a stage has been off by as much for `LASTING_SECONDS`.

        A look that differs from the first one is the first one of others. A burst of load differs
        from what comes before and after it; a slow device is as slow in all looks.
        """
        if not is_off(ratios) or not _agree(self._first, ratios):
            self._first, self._since = ratios, self.now()
            return False
        return self.now() - self._since >= LASTING_SECONDS


def _agree(some: list[float], others: list[float]) -> bool:
    pairs = [(min(pair), max(pair)) for pair in zip(some, others, strict=False)]
    return bool(pairs) and all(low > 0 and high <= (1 + OFF) * low for low, high in pairs)


def as_measured(cluster: str, plan: ParallelPlan, ratios: list[float]) -> str:
    """The cluster, with the devices of each stage as fast as its passes were.

    Whether a device is slow or the layers on it are heavy cannot be told from the time of a stage:
    the device's constants take all of the difference.
    """
    fields = json.loads(cluster)
    kinds = {one["name"]: one for one in fields["types"]}
    names = [one["type"] for one in fields["groups"] for _ in range(one["count"])]
    for stage, ratio in zip(plan.stages, ratios, strict=True):
        for rank in stage.ranks:
            kind = kinds[names[rank]]
            name = f"{kind['name']} at {1 / ratio:.2g} of its speed"
            kinds.setdefault(name, kind | {
                "name": name, "flops": kind["flops"] / ratio, "source": "measured in training",
                "bandwidth": kind["bandwidth"] / ratio, "launch": kind["launch"] * ratio,
            })  # fmt: skip
            names[rank] = name
    fields["types"] = [kinds[name] for name in dict.fromkeys(names)]
    fields["groups"] = [{"type": name, "count": 1} for name in names]
    return json.dumps(fields, separators=(",", ":"))


def step_of(stages: list[float], micro_batches: int) -> float:
    """Seconds of a step of a pipeline: the first micro-batch passes all stages, and the others
    follow it through the slowest one.
    """
    return (sum(stages) + (micro_batches - 1) * max(stages)) / micro_batches


def better(
    plan: ParallelPlan,
    text: str,
    layers: list[Costs],
    cluster: str,
    ratios: list[float],
    rows: list[float],
) -> Found:
    """The plan of that text, if it pays to move to it from `plan`."""
    new = ParallelPlan.parse(text)
    took = [max(rows[rank] for rank in stage.ranks) for stage in plan.stages]
    now = step_of(took, plan.micro_batches)
    then = new.step_seconds
    if new.is_pipeline and new.tensor == 1:
        then = step_of(stage_seconds(new, layers, cluster), new.micro_batches)
    is_other = planner.digest(text) != planner.digest(plan.text)
    if not is_other or then > (1 - GAIN) * now:
        return Found("", "", is_over=True)
    worst = max(range(len(ratios)), key=lambda stage: abs(ratios[stage] - 1))
    percent = round(100 * (ratios[worst] - 1))
    told = f"{abs(percent)} % {'longer' if percent > 0 else 'shorter'} than predicted"
    because = f"stage {worst} took {told}, and a step is to take {round(100 * (1 - then / now))} " \
              f"% less: {new.because}"  # fmt: skip
    fields = json.loads(text) | {"because": because}
    return Found(json.dumps(fields, separators=(",", ":")), because, is_over=True)


def told_as(answer: Answer, plan: ParallelPlan) -> Answer:
    """The answer with which rank 0 tells its agent of the move."""
    return replace(answer, plan=plan, because="")
