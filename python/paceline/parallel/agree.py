"""One plan for all ranks: the given one, the checkpoint's, or one that rank 0 chooses and sends.

Digests of the plans are compared through the store before the first collective that depends on the
plan. Ranks with different plans would wait for each other forever, or add up different gradients.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from paceline.parallel import cluster, memory, planner
from paceline.parallel.errors import PlanError
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.store import Talk

Json = dict[str, Any]
Devices = list[list[Any]]  # names and counts, in the order of the ranks: [["NVIDIA H100", 8]]


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan is made for, apart from the devices."""

    summary: str
    wishes: Json

    @property
    def digest(self) -> str:
        # The line of an annotation is not part of the question.
        asked = {name: one for name, one in self.wishes.items() if name != "because"}
        wishes = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{self.summary}\n{wishes}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan of a checkpoint, and what it was made for."""

    plan: str
    question: str  # the question's digest
    devices: Devices


@dataclass(frozen=True, slots=True)
class Answer:
    """The plan that every rank carries out."""

    plan: ParallelPlan
    kept: Kept  # the entry for the next checkpoint
    because: str  # where the plan comes from
    cluster: str = ""  # the ranks' devices; their speeds may be placeholders


def agree(
    talk: Talk,
    question: Question,
    device: str,
    *,
    given: str | None,
    kept: Kept | None,
    measure: Callable[[Devices], str | None],
    flag: str = "",
    memory_bytes: int = 0,
) -> Answer:
    """Returns one plan on every rank, or raises the same PlanError on every rank.

    `device` is the name of this rank's device, without measured numbers. `memory_bytes` is how much
    of its memory this rank may use; 0: not known. `given` is a plan of the script, or of `flag`:
    "--plan plan.json"; `kept` is the checkpoint's. `measure` makes the cluster. If a plan has to
    be chosen, all ranks call `measure` together, and rank 0 gets the text.
    """
    there = talk.settle("devices", lambda: [question.digest, device, memory_bytes], _devices)
    devices: Devices = there["devices"]
    # The plan may have been edited, so its own reason need not be true any more.
    text = None if given is None else _without_reason(given)
    because = f"{flag} gives it" if flag else "the script gives it"
    rooms: dict[str, int] = there["memory"]
    measured = cluster.without_numbers(devices, rooms)
    known: memory.Limits = {}
    if text is None:
        known = talk.settle("limits", lambda: memory.limits(question.digest), memory.least)
        text = talk.decide("kept", lambda: _reusable(kept, question, devices, known))
        because = "the checkpoint has it, for the same devices"
    if text is None:
        measured = measure(devices) or measured
        text = talk.decide("plan", lambda: planner.choose(
            question.summary, memory.limited(measured, devices, known), question.wishes)
        )  # fmt: skip
        because = "it is chosen for these devices"
    giver = "" if given is None else flag or "parallelize(plan=…)"
    compare(talk, text, question, devices, giver=giver)
    plan = ParallelPlan.parse(text)
    _must_fit(plan, question)
    return Answer(plan, Kept(text, question.digest, devices), because, measured)


def _devices(rows: list[list[Any]]) -> Json:
    """Devices as runs of equal ones, and the least memory of each kind.

    Raises if the ranks' questions differ.
    """
    for rank, row in enumerate(rows):
        if row[0] != rows[0][0]:
            raise PlanError(
                what="the ranks have different training problems",
                where=f"rank {rank}",
                why="it has another model, optimizer, example, global_batch or wishes than rank 0",
                fix="give parallelize the same arguments on every rank",
            )
    memory: dict[str, int] = {}
    for _, name, room in rows:
        if room > 0:
            memory[name] = min(room, memory.get(name, room))
    runs = [[name, len(list(run))] for name, run in groupby(row[1] for row in rows)]
    return {"devices": runs, "memory": memory}


def _reusable(
    kept: Kept | None, question: Question, devices: Devices, known: memory.Limits
) -> str | None:
    if kept is None or (kept.question, kept.devices) != (question.digest, devices):
        return None
    if known and not memory.fits(ParallelPlan.parse(kept.plan), devices, known):
        return None  # that plan ran out of memory
    return kept.plan


def _without_reason(text: str) -> str:
    try:
        fields = json.loads(text)
    except ValueError:
        return text  # the planner says what is wrong with it
    return json.dumps(fields | {"because": ""}, separators=(",", ":")) \
        if isinstance(fields, dict) else text  # fmt: skip


def compare(
    talk: Talk, text: str, question: Question, devices: Devices, *, giver: str = ""
) -> None:
    """Raise on all ranks if any rank refuses its plan, or if plans differ.

    `giver`: the flag or argument that gave the plan; "": nobody did.
    """

    def digest() -> str:
        try:
            planner.check(text, question.summary, cluster.without_numbers(devices))
        except PlanError as error:
            if not giver:
                raise
            fix = "a plan for this model and this world, or leave it out: then one is made"
            raise PlanError(what=error.what, where=giver, why=error.why, fix=fix) from error
        return planner.digest(text)

    def verdict(rows: list[str]) -> None:
        for rank, row in enumerate(rows):
            if row != rows[0]:
                raise PlanError(
                    what="the ranks hold different plans",
                    where=f"rank {rank}",
                    why=f"the digest of its plan begins with {row[:12]}, that of rank 0 with "
                    f"{rows[0][:12]}",
                    fix="give every rank the same plan, or none: then rank 0 chooses one",
                )

    talk.settle("digest", digest, verdict)


def _must_fit(plan: ParallelPlan, question: Question) -> None:
    if plan.global_batch != question.wishes["global_batch"]:
        why = f"its global batch is {plan.global_batch}, not {question.wishes['global_batch']}"
        fix = "it is the plan of another job: leave plan out"
        raise PlanError(what="the plan is not for this job", where="parallelize", why=why, fix=fix)
