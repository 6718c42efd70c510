"""Compiles the repeated block of a model, where that pays: `parallelize(compiled="auto")`.

One block is compiled and timed against itself, forward and backward, on all ranks at the same time.
If it is faster on the slowest rank, all blocks like it are compiled in place. Names of tensors stay
as they are.
"""

import copy
import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from paceline.parallel import probe
from paceline.parallel.execute import Work
from paceline.parallel.store import Talk

Compile = Literal["auto", False]
CHOICES = ("auto", False)
_GAIN_LEAST = 0.05  # of the block's time: less is noise


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a compiled block is faster, and what that says of a step."""

    is_used: bool
    because: str  # as one sentence


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one rank's block."""

    plain: float  # of a forward pass
    compiled: float  # 0: it could not be compiled
    compiling: float  # once
    why: str  # it could not be compiled


def compile_blocks(work: Work, talk: Talk, choice: Compile) -> str:
    """Compile the blocks of this rank if that pays. Return why, or why not, as one sentence.

    All ranks call it. "" if the script turned it off.
    """
    if choice is False:
        return ""
    block = probe.Block.of(work.study).largest()
    modules = _like(work, block)
    why = why_not(work, modules)
    verdict = Verdict(False, why) if why else _judged(work, talk, block, modules)
    if verdict.is_used:
        for module in modules:
            module.compile()
    return verdict.because


def why_not(work: Work, modules: list[nn.Module]) -> str:
    """Why blocks of this plan are not compiled, whatever it would gain; "" if they may be."""
    plan = work.plan
    if plan.recompute != "none" or plan.is_pipeline or plan.shard or plan.tensor > 1 or plan.unused:
        return "blocks are compiled where each rank is a replica of the whole model"
    return "" if len(modules) > 1 else "no block of the model is repeated"


def verdict_of(rows: list[Times], blocks: int, passes: int) -> Verdict:
    """Whether compiled blocks pay in a step with that many blocks, by the times of all ranks."""
    for row in rows:
        if row.compiled <= 0:
            return Verdict(False, f"a block cannot be compiled: {row.why}")
    plain, compiled = max(row.plain for row in rows), max(row.compiled for row in rows)
    gain = plain - compiled
    if gain < _GAIN_LEAST * plain:
        told = f"a compiled block takes {compiled / plain:.2f} of the time: that does not pay"
        return Verdict(False, told)
    each = 3 * gain * blocks * passes  # a backward pass takes two forward passes
    steps = math.ceil(max(row.compiling for row in rows) / each)
    told = f"blocks are compiled: each takes {compiled / plain:.2f} of the time, which pays " \
           f"after {steps} steps"  # fmt: skip
    return Verdict(True, told)


def _judged(work: Work, talk: Talk, block: probe.Block, modules: list[nn.Module]) -> Verdict:
    def judge(rows: list[dict[str, Any]]) -> list[Any]:
        found = verdict_of([Times(**row) for row in rows], len(modules), work.plan.micro_batches)
        return [found.is_used, found.because]

    def mine() -> dict[str, Any]:
        times = _timed(work, block, modules[0])
        return {name: getattr(times, name) for name in ("plain", "compiled", "compiling", "why")}

    return Verdict(*talk.settle("compiled", mine, judge))


def _timed(work: Work, block: probe.Block, module: nn.Module) -> Times:
    samples = max(1, work.share // work.plan.micro_batches)
    place = work.device
    cuda = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        plain = copy.deepcopy(module).to(place).train()
        fast = copy.deepcopy(module).to(place).train()
        run = probe.passes([plain], block, samples, place, work.precision)
        seconds = probe.sustained(run, place) / 3
        fast.compile()
        quick = probe.passes([fast], block, samples, place, work.precision)
        begin = time.perf_counter()
        try:
            quick()
        except Exception as error:
            return Times(seconds, 0.0, 0.0, str(error).strip().splitlines()[0][:200])
        compiling = time.perf_counter() - begin
        return Times(seconds, probe.sustained(quick, place) / 3, compiling, "")


def _like(work: Work, block: probe.Block) -> list[nn.Module]:
    """The layers that are the same as the block, which is one of them."""
    rows, names = work.study.rows, work.layers.names
    first = rows[names.index(block.names[0])]
    wanted = {key: value for key, value in first.items() if key != "name"}
    return [
        work.model.get_submodule(name)
        for name, row in zip(names, rows, strict=True)
        if {key: value for key, value in row.items() if key != "name"} == wanted
    ]
