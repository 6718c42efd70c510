"""Plans that ran out of memory are not chosen again.

The predicted memory of a plan may be too low. A rank whose first step runs out of memory writes
that into a file beside the measured numbers. Later searches assume that its device has less memory.
"""

import hashlib
import json
import os
from typing import Any

import torch

from paceline._base.launch import cache_dir
from paceline.parallel.errors import PlanError
from paceline.parallel.plan import ParallelPlan

Limits = dict[str, int]  # bytes, by the name of a device

# A plan that needs only a little less would fail in the same way.
_LESS = 0.9
_GIB = 1 << 30


def is_out_of_memory(error: BaseException) -> bool:
    kinds = [MemoryError, *(getattr(torch, name) for name in ("OutOfMemoryError",)
                            if hasattr(torch, name)), torch.cuda.OutOfMemoryError]  # fmt: skip
    if isinstance(error, tuple(kinds)):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def noted(plan: ParallelPlan, rank: int, question: str, device: str) -> PlanError:
    """Record that this rank's first step ran out of memory. Returns the error to raise."""
    place = plan.place(rank)
    needed = plan.memory[place.stage] if place is not None else 0
    path = _path(question)
    is_kept = _write(path, limits(question) | {device: int(needed * _LESS)})
    fix = "start again: paceline then chooses a plan that needs less memory"
    if not is_kept:
        wish = 'wishes={"recompute": ["full"]}'
        fix = f"{wish}, or a plan of less memory; {path} cannot be written"
    return PlanError(
        what=f"rank {rank} ran out of memory in its first step",
        where=f"{device}, {plan.told()}",
        why=f"the plan predicts {needed / _GIB:.3g} GiB for it, which is too low",
        fix=fix,
        is_final=False,
    )


def limits(question: str) -> Limits:
    """The limits that ranks of this host recorded for that question; none if the file is
    damaged.
    """
    try:
        with open(_path(question), encoding="utf-8") as file:
            fields = json.load(file)
        return {str(name): int(value) for name, value in fields["limits"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def least(rows: list[Limits]) -> Limits:
    """The smallest limits over all hosts."""
    found: Limits = {}
    for row in rows:
        for name, value in row.items():
            found[name] = min(value, found.get(name, value))
    return found


def fits(plan: ParallelPlan, devices: list[list[Any]], known: Limits) -> bool:
    """Whether every rank of the plan stays below the recorded limit of its device."""
    names = [name for name, count in devices for _ in range(count)]
    return all(
        needed <= known.get(names[rank], needed)
        for stage, needed in zip(plan.stages, plan.memory, strict=True)
        for rank in stage.ranks
        if rank < len(names)
    )


def limited(cluster: str, devices: list[list[Any]], known: Limits) -> str:
    """The cluster, with the recorded limits as memory of its devices."""
    if not known:
        return cluster
    fields = json.loads(cluster)
    kinds = {one["name"]: one for one in fields["types"]}
    types = [one["type"] for one in fields["groups"] for _ in range(one["count"])]
    names = [name for name, count in devices for _ in range(count)]
    for kind, name in zip(types, names, strict=False):
        if name in known and known[name] < kinds[kind]["memory"]:
            kinds[kind]["memory"] = known[name]
            kinds[kind]["source"] += "; a step ran out of memory"
    return json.dumps(fields, separators=(",", ":"))


def _path(question: str) -> str:
    key = hashlib.sha256(question.encode()).hexdigest()[:24]
    return str(cache_dir() / "plans" / f"{key}.json")


def _write(path: str, known: Limits) -> bool:
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"limits": known}, file)
        os.replace(temporary, path)
    except OSError:
        return False
    return True
