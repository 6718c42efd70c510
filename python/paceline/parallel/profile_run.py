"""A process of `paceline profile`: measures what its device and its links reach, and ends.

    PACELINE_PROFILE=/tmp/profile python -m paceline.parallel.profile_run train.py

With a script, the script's own block is measured: `parallelize` does so and ends the process.
Without one, products of square matrices are.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.errors import PacelineError
from paceline.parallel import device as devices
from paceline.parallel import probe
from paceline.parallel.cluster import Measured, text_of
from paceline.parallel.describe import Study
from paceline.parallel.errors import PlanError
from paceline.parallel.planning_run import line_of
from paceline.parallel.store import Talk

PROFILE = "PACELINE_PROFILE"  # a folder, in which rank 0 writes what all have measured
RESULT = "profile.json"
_SIZES = (256, 1024, 2048, 8192)  # of the square matrices; an accelerator needs large ones
_SLOWEST = 2.0  # seconds; a product that would take longer is not tried
_PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def is_asked() -> bool:
    """Whether this process runs for `paceline profile`."""
    return bool(os.environ.get(PROFILE))


def end_with_block(model: nn.Module, studied: Study, place: torch.device, talk: Talk) -> None:
    """Measures the block of the script's model on all ranks, writes it, and ends the process."""
    text = probe.measure(model, studied, place, talk, _names(talk, place), is_fresh=True)
    names = probe.Block.of(studied).names
    block = " to ".join(dict.fromkeys((names[0], names[-1])))
    _end(talk, {"block": block, "cluster": json.loads(text), "products": []})


def measure_products(place: torch.device, talk: Talk) -> dict[str, Any]:
    """What products of matrices reach on all ranks at the same time, and the links."""
    names = _names(talk, place)
    products = [
        {"precision": precision, "size": size, "flops": rate}
        for precision, kind in _PRECISIONS.items()
        for size, rate in _product_rates(kind, place)
    ]
    usual = "bf16" if place.type == "cuda" else "fp32"
    best = max(one["flops"] for one in products if one["precision"] == usual)
    mine = Measured(best, probe.bandwidth_of(place), _launch(place), _memory(place, talk))
    link = probe.measured_link(talk, place, names, is_fresh=True)
    local = devices.local_ranks(talk.world_size)

    def judge(rows: list[dict[str, Any]]) -> str:
        node = local if talk.world_size % local == 0 else 1
        hides = 0.0 if place.type == "cpu" else 1.0
        measured = [Measured(**row) for row in rows]
        return text_of(names, measured, node=node, link=link, source="measured", overlap=hides)

    text: str = talk.settle("profile", lambda: asdict(mine), judge)
    return {"block": "", "cluster": json.loads(text), "products": products}


def _product_rates(kind: torch.dtype, place: torch.device) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    seconds = 0.0
    for before, size in pairwise((1, *_SIZES)):
        if seconds * (size / before) ** 3 > _SLOWEST:
            break
        one = torch.randn(size, size, device=place).to(kind)
        target = torch.empty_like(one)
        run: Callable[[], object] = lambda a=one, out=target: torch.mm(a, a, out=out)  # noqa: E731
        seconds = probe.sustained(run, place)
        found.append((size, 2.0 * size**3 / seconds))
    return found


def _launch(place: torch.device) -> float:
    """Seconds of an operation on almost nothing."""
    one = torch.ones(8, device=place)
    return probe.sustained(lambda: one.add_(1.0), place)


def _memory(place: torch.device, talk: Talk) -> int:
    return devices.memory_of(place, devices.local_ranks(talk.world_size))


def _names(talk: Talk, place: torch.device) -> list[list[Any]]:
    def runs(rows: list[str]) -> list[list[Any]]:
        return [[name, len(list(run))] for name, run in groupby(rows)]

    return talk.settle("names", lambda: devices.name_of(place), runs)


def _end(talk: Talk, found: dict[str, Any]) -> None:
    if talk.rank == 0:
        with open(os.path.join(os.environ[PROFILE], RESULT), "w", encoding="utf-8") as file:
            json.dump(found, file)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    raise SystemExit(0)


def main(words: list[str]) -> int:
    """Runs the script, or measures products of matrices; the exit status."""
    if not is_asked():
        print(f"error: {PROFILE} is not set; run paceline profile", file=sys.stderr)
        return 2
    if not words:
        from paceline.parallel.make import begin_world

        begin_world()
        talk, place = Talk.of_world(), devices.device()
        devices.settle(place)
        _end(talk, measure_products(place, talk))
    from paceline._rank.entry import Entry, execute

    script, *rest = words
    try:
        execute(Entry(kind="script", target=script, args=tuple(rest)), on_error=lambda _: None)
    except PacelineError as error:
        return _refused(error)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        line = line_of(error, script)
        return _refused(PlanError(
            what="the script failed, and did not come as far as parallelize",
            where=f"{script}, {line}",
            why=f"{type(error).__name__}: {error}".split("\n")[0],
            fix=f"mend {line} of the script, or paceline profile without a script",
        ))  # fmt: skip
    return _refused(PlanError(
        what="the script ended without a model to measure",
        where=script,
        why="it never called paceline.parallel.parallelize",
        fix="call it in the script, or paceline profile without a script",
    ))  # fmt: skip


def _refused(error: PacelineError) -> int:
    print(f"error[PL-E121]: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
