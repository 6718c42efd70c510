"""Measures this rank's device and the links between the ranks, in 2 s at most.

A repeated block of the model runs at two batch sizes. The cost model has three constants a device:

    forward pass of n samples = n × (flops ÷ F + saved ÷ B) + parameters × bytes ÷ B + launch

and the backward pass takes twice as long. B is the memory's bandwidth, from a copy; F and launch
are fitted to the two sizes. All ranks run at the same time, because they will in training.
"""

import copy
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from paceline._base.launch import cache_dir
from paceline.parallel import device as devices
from paceline.parallel import memory
from paceline.parallel.cluster import Link, Measured, text_of
from paceline.parallel.describe import Study
from paceline.parallel.store import Talk
from paceline.parallel.trace import Form, computing, scaled

_COPY_BYTES = 32 << 20
_LARGE_BYTES = 4 << 20
_SAMPLES_MAX = 64
_BLOCK_SECONDS = 1.2  # after which no larger batch is tried
_PERIOD_MAX = 4  # layers of a block
_RUNS = 3
# A rank with a CPU quota computes at full speed until the quota of the period is used up. So only a
# mean over whole periods measures its speed. The period of the kernel and of Kubernetes is 0.1 s.
_WINDOW_SECONDS = 0.12
_WINDOWS = 2
_ROUNDS_MAX = 4096
_SPEEDS = ("flops", "bandwidth", "launch")
# A part of the cache's keys. Raise it when what is measured changes, so that no number of an older
# release is taken for a new one.
_METHOD = 4
_ANY_FLOPS = 1e12  # of a block without matrix products: nothing is divided by it


@dataclass(frozen=True, slots=True)
class Speeds:
    """The three constants of a device."""

    flops: float
    bandwidth: float
    launch: float


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a model that is timed, and its costs for one sample."""

    names: tuple[str, ...]  # of its layers
    flops: float
    saved: float
    parameter_bytes: float
    forms: tuple[tuple[Any, Any], ...]  # each layer's arguments with two and with four samples

    @classmethod
    def of(cls, study: Study) -> "Block":
        """The layer with the most arithmetic, and those up to the next one like it.

        What stands between two large layers takes its time, too: an activation has no matrix
        product, and costs a processor as much as a third of one.
        """
        places = _period(study.rows)
        rows = [study.rows[place] for place in places]
        width = study.summary["bytes"]["compute"]
        return cls(
            tuple(study.layers.names[place] for place in places),
            sum(row["flops"] for row in rows),
            sum(row["saved"] for row in rows),
            sum(row["parameters"] for row in rows) * width,
            tuple((study.few[place].inputs, study.more[place].inputs) for place in places),
        )

    def largest(self) -> "Block":
        """Its first layer alone, that with the most arithmetic. The costs stay those of all."""
        return replace(self, names=self.names[:1], forms=self.forms[:1])


def _period(rows: list[dict[str, Any]]) -> range:
    """The first of the largest layers up to the next one like it, or it alone."""
    first = max(range(len(rows)), key=lambda one: (rows[one]["flops"], -one))
    alike = ("flops", "saved", "parameters")
    for place in range(first + 1, min(first + 1 + _PERIOD_MAX, len(rows))):
        if all(rows[place][one] == rows[first][one] for one in alike):
            return range(first, place)
    return range(first, first + 1)


def measure(
    model: nn.Module,
    study: Study,
    place: torch.device,
    talk: Talk,
    names: list[list[Any]],
    *,
    is_fresh: bool = False,
) -> str:
    """The cluster of these ranks. Every rank calls it. `names` are the names of the devices.

    With `is_fresh` everything is measured, whatever the cache has.
    """
    local = devices.local_ranks(talk.world_size)
    name, block = devices.name_of(place), Block.of(study)
    precision: str = study.summary["precision"]
    what = [name, torch.__version__, precision, block.flops, block.saved, block.parameter_bytes]
    known = None if is_fresh else read_cache(what, _SPEEDS)
    if known is None:
        modules = [model.get_submodule(name) for name in block.names]
        speeds = asdict(measured_speeds(modules, block, place, precision))
    else:
        speeds = known
    mine = speeds | {"memory": devices.memory_of(place, local)}
    link = measured_link(talk, place, names, is_fresh=is_fresh)
    node = local if talk.world_size % local == 0 else 1

    def judge(rows: list[dict[str, Any]]) -> str:
        measured = [Measured(**row) for row in rows]
        hides = 0.0 if place.type == "cpu" else 1.0
        return text_of(
            names, measured, node=node, link=link, source="measured", overlap=hides
        )

    text: str = talk.settle("measured", lambda: mine, judge)
    if known is None:
        # The numbers of the device type are cached, not this rank's, so that the next world gets
        # the same plan.
        types = {one["name"]: one for one in json.loads(text)["types"]}
        write_cache(what, {one: types[name][one] for one in _SPEEDS})
    return text


# ---- the device ----


def measured_speeds(
    modules: list[nn.Module], block: Block, place: torch.device, precision: str
) -> Speeds:
    """Times copies of the layers; the layers and the random numbers stay as they are."""
    cuda = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        bandwidth = bandwidth_of(place)
        copied = [copy.deepcopy(module).to(place).train() for module in modules]
        seconds = _timed(copied, block, place, precision)
    return fitted(block, bandwidth, seconds)


def fitted(block: Block, bandwidth: float, seconds: dict[int, float]) -> Speeds:
    """Fit the constants to the seconds of a forward pass with two numbers of samples."""
    few, many = min(seconds), max(seconds)
    each = (seconds[many] - seconds[few]) / (many - few)
    if each <= 0:  # noise was larger than the difference
        each = seconds[many] / many
    # Saved values are written while arithmetic runs, so at most half of the time counts as writing.
    if block.saved and block.flops:
        bandwidth = max(bandwidth, block.saved / (each / 2))
    arithmetic = max(each - block.saved / bandwidth, each / 2)
    fixed = max(0.0, seconds[few] - few * each)
    launch = max(0.0, fixed - block.parameter_bytes / bandwidth) / len(block.names)
    flops = block.flops / arithmetic if block.flops else _ANY_FLOPS
    return Speeds(flops, bandwidth, launch)


def _timed(
    modules: list[nn.Module], block: Block, place: torch.device, precision: str
) -> dict[int, float]:
    """Seconds of a forward pass by number of samples, as a third of forward and backward pass
    together.
    """
    begin = time.perf_counter()
    seconds: dict[int, float] = {}
    samples = 1
    while samples <= _SAMPLES_MAX:
        try:
            seconds[samples] = best_of(passes(modules, block, samples, place, precision), place) / 3
        except Exception as error:
            if not seconds or not memory.is_out_of_memory(error):
                raise
            break  # the device has no memory for the block with this many samples
        is_slow = time.perf_counter() - begin > _BLOCK_SECONDS / 4
        if len(seconds) > 1 and (is_slow or seconds[samples] > 4 * seconds[1]):
            break
        samples *= 4
    return {
        count: sustained(passes(modules, block, count, place, precision), place) / 3
        for count in (1, max(seconds))
    }


def passes(
    modules: list[nn.Module], block: Block, samples: int, place: torch.device, precision: str
) -> Callable[[], None]:
    given = [
        tree_map(
            lambda one: _filled(one, place) if isinstance(one, Form) else one,
            scaled(*forms, samples),
        )
        for forms in block.forms
    ]

    def run() -> None:
        for module, (args, kwargs) in zip(modules, given, strict=True):
            with computing(precision, place.type):
                found = tree_leaves(module(*args, **kwargs))
            outputs = [one for one in found if isinstance(one, torch.Tensor) and one.requires_grad]
            if outputs:
                torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])
            module.zero_grad(set_to_none=True)

    return run


def _filled(form: Form, place: torch.device) -> torch.Tensor:
    if form.dtype.is_floating_point:
        made = torch.randn(form.shape, device=place) * 0.02
        return made.to(form.dtype).requires_grad_(form.needs_grad)
    return torch.zeros(form.shape, dtype=form.dtype, device=place)


def bandwidth_of(place: torch.device) -> float:
    """Bytes a second of its memory, from a copy."""
    source = torch.ones(_COPY_BYTES // 4, device=place)
    target = torch.empty_like(source)
    # A copy reads and writes each byte.
    return 2 * _COPY_BYTES / sustained(lambda: target.copy_(source), place)


def sustained(run: Callable[[], object], place: torch.device) -> float:
    """Seconds of a run: the mean of the better of two windows of many runs, after a warm-up run."""
    run()
    found: list[float] = []
    for _ in range(_WINDOWS):
        _wait_for(place)
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < _WINDOW_SECONDS:
            run()
            _wait_for(place)
            count += 1
        found.append((time.perf_counter() - begin) / count)
    return max(min(found), 1e-9)


def best_of(run: Callable[[], object], place: torch.device) -> float:
    """Seconds of the fastest of a few runs, after a warm-up run."""
    found: list[float] = []
    for _ in range(_RUNS + 1):
        begin = time.perf_counter()
        run()
        _wait_for(place)
        found.append(time.perf_counter() - begin)
    return max(min(found[1:]), 1e-9)


def _wait_for(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


# ---- links ----


def measured_link(
    talk: Talk, place: torch.device, names: list[list[Any]], *, is_fresh: bool = False
) -> Link | None:
    """The cost of a message between two ranks, from all-reduces of two sizes; None for a single
    rank.

    Rank 0 decides whether cached numbers are used, because either all ranks measure or none.
    """
    if talk.world_size == 1:
        return None
    what = [names, torch.__version__, os.environ.get("LOCAL_WORLD_SIZE", "")]
    known = talk.decide(
        "link", lambda: None if is_fresh else read_cache(what, ("seconds", "bandwidth"))
    )
    if known is not None:
        return Link(**known)
    times: list[float] = []
    for size in (8, _LARGE_BYTES):
        buffer = torch.ones(size // 4, device=place)
        times.append(_mean_of(lambda full=buffer: dist.all_reduce(full), place, talk, str(size)))
    found = link_of(times[0], times[1], talk.world_size)
    # Each rank measures other times, so all take those of rank 0.
    link = Link(**talk.decide("links", lambda: asdict(found)))
    if talk.rank == 0:
        write_cache(what, asdict(link))
    return link


def _mean_of(run: Callable[[], object], place: torch.device, talk: Talk, topic: str) -> float:
    """Seconds of a run in a window of many. Rank 0 tells how many: all must run as often."""
    once = best_of(run, place)
    count = talk.decide(
        f"runs of {topic}", lambda: min(_ROUNDS_MAX, max(_RUNS, math.ceil(_WINDOW_SECONDS / once)))
    )
    _wait_for(place)
    begin = time.perf_counter()
    for _ in range(count):
        run()
    _wait_for(place)
    return (time.perf_counter() - begin) / count


def link_of(small: float, large: float, ranks: int) -> Link:
    """Solve for the link of a ring all-reduce: 2 (ranks − 1) messages, each with 1 ÷ ranks of
    the bytes.
    """
    messages = 2 * (ranks - 1)
    rest = max(large - small, small * 1e-3)
    return Link(small / messages, messages * _LARGE_BYTES / ranks / rest)


# ---- the cache ----


def _cached(what: list[Any]) -> str:
    key = hashlib.sha256(json.dumps([_METHOD, *what]).encode()).hexdigest()[:24]
    return str(cache_dir() / "probe" / f"{key}.json")


def read_cache(what: list[Any], names: tuple[str, ...]) -> dict[str, float] | None:
    """The cached numbers; None if the file is missing or damaged."""
    try:
        with open(_cached(what), encoding="utf-8") as file:
            fields = json.load(file)
        found = {name: float(fields[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if all(math.isfinite(one) and one >= 0 for one in found.values()) else None


def write_cache(what: list[Any], numbers: dict[str, float]) -> None:
    """Cache the numbers for the next world. An error of the file system is ignored."""
    path = _cached(what)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"what": what, **numbers}, file)
        os.replace(temporary, path)
    except OSError:
        pass
