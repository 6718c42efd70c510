"""Cuts by measured speed: slower ranks read less of a step, so that all ranks end together.

The samples of a step stay the same; only the shares change. All ranks get the same times and run
the same decision (`data/speed_cut.h`), so they need no further agreement. A change applies from the
first step that no rank has begun to read.
"""

import logging
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from paceline._base import arguments
from paceline._data.order import Json
from paceline._native import SpeedCut, cut_evenly, scale_shares
from paceline.errors import DataError

Gather = Callable[[list[float]], list[list[float]]]
Place = tuple[int, int]  # epoch, ordinal

_MOST_MAX, _GAIN_MAX = 1_000_000, 0.999
_UNHEARD_LOOKS = 10  # looks without any measured time before a warning
_COLUMNS = 7
# A speed needs three measurements. Until then a slow rank delays all, so the first looks come
# early.
_EARLY_LOOKS, _EARLY_EVERY = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBySpeed:
    """Cuts each step so that ranks of different speed end it at the same time.

    loader = ElasticLoader(data, global_batch=256, cut=CutBySpeed())

    A rank's own work must be told apart from its waiting for others. For DistributedDataParallel
    `weigh_by_samples(model, loader)` does so; else call `loader.worked()` before gradients are
    exchanged, and multiply each loss by `loader.weight`.

    Args:
        most: the largest share of a rank, in equal shares. The rank's memory must suffice for it.
        least: the smallest share of a rank, in samples.
        every: steps between two looks. A look exchanges 56 bytes a rank. The first three looks come
            at most two steps apart.
        gain: predicted gain from which a cut changes, as a fraction of a step's time.
        gather: a function from this rank's row of numbers to the rows of all ranks, in rank order;
            with mpi4py `comm.allgather`. None: torch's loader uses the whole world
            (`gather_over(group)` for another group).
    """

    most: float = 2.0
    least: int = 1
    every: int = 5
    gain: float = 0.03
    gather: Gather | None = None

    def __post_init__(self) -> None:
        where, fix = "CutBySpeed", "leave it out"
        arguments.count(where, "least", self.least)
        arguments.count(where, "every", self.every)
        arguments.number(where, "most", self.most, least=1, most=_MOST_MAX, fix=fix,
                         wanted=f"a number from 1 to {_MOST_MAX:,}")  # fmt: skip
        arguments.number(where, "gain", self.gain, least=0, most=_GAIN_MAX, fix=fix,
                         wanted=f"a number from 0 to {_GAIN_MAX}")  # fmt: skip
        arguments.callback(where, "gather", self.gather)


@dataclass(slots=True)
class Clock:
    """How a step's own work is timed. Frameworks replace it by their device's clock."""

    mark: Callable[[], Any] = time.perf_counter
    between: Callable[[Any, Any], float] = lambda begin, end: end - begin  # seconds


@dataclass(slots=True)
class _Window:
    """What this rank measured since the last look."""

    samples: int = 0  # samples of this rank in each step of the window
    marks: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    first: tuple[int, tuple[Any, Any]] | None = None  # the first step after a change of the cut


@dataclass(frozen=True, slots=True)
class Era:
    """The shares of a whole step, from one place of the training on."""

    since: Place
    shares: list[int]


class SpeedCutter:
    """The cut of one loader: the current shares, the measurements, and the decision to change
    the cut.
    """

    def __init__(
        self, options: CutBySpeed, *, global_batch: int, world_size: int, micro_batch: int
    ) -> None:
        self.clock = Clock()
        self._options = options
        self._batch = global_batch
        self._world = world_size
        self._micro = micro_batch
        self.least, self.most = _bounds(options, global_batch, world_size, micro_batch)
        self.load(None)

    # ---- the cut ----

    def shares_at(self, place: Place, size: int) -> list[int]:
        """The number of samples of each rank in the step of `size` samples that begins at that
        place.
        """
        era = next(one for one in reversed(self._eras) if one.since <= place)
        if size == self._batch:
            return era.shares
        return scale_shares(era.shares, size, self.least)

    def range_of(self, epoch: int, step: tuple[int, int], rank: int) -> tuple[int, int]:
        shares = self.shares_at((epoch, step[0]), step[1] - step[0])
        begin = step[0] + sum(shares[:rank])
        return begin, begin + shares[rank]

    def parts_at(self, place: Place, size: int) -> int:
        if self._micro == 0:
            return 1
        return -(-max(self.shares_at(place, size)) // self._micro)

    # ---- what is measured ----

    def pause(self) -> None:
        """Do not measure the next step, because its loader starts up."""
        self._began = None

    def begin(self) -> None:
        self._began = self.clock.mark()

    def worked(self) -> None:
        """This rank's own work for the step is done. The last call of a step counts."""
        if self._began is not None:
            self._ended = self.clock.mark()

    def use_clock(self, clock: Clock) -> None:
        """Use `clock` from the next step on. Marks of two clocks cannot be compared."""
        self.clock, self._began, self._ended = clock, None, None
        self._window = _Window()

    def step_ended(self, place: Place, size: int, samples: int) -> None:
        """The step that began at `place` is done, with `samples` of this rank."""
        began, ended, self._began, self._ended = self._began, self._ended, None, None
        era = next(one for one in reversed(self._eras) if one.since <= place)
        is_first, self._measured = era is not self._measured, era
        if is_first:
            self._window = _Window()
        if began is None or ended is None or size != self._batch:
            return
        if is_first:
            self._window.first = (samples, (began, ended))
        else:
            self._window.samples = samples
            self._window.marks.append((began, ended))

    # ---- looks ----

    def look(self, gather: Gather, reached: Place) -> None:
        """Called after each step; exchanges times every few steps. `reached` is the end of what was
        read ahead.
        """
        steps = self._steps_to_look_at()
        if steps == 0:
            return
        rows = gather(self._row(reached))
        self._window = _Window()
        self._must_agree(rows)
        first = [(row[2], row[3]) for row in rows]
        if all(samples > 0 for samples, _ in first):
            self._machine.switched(first)
        times = [(row[0], row[1]) for row in rows]
        self._hear(times)
        change = self._machine.look(times, steps) if self._may_change(times) else None
        if change is None:
            return
        since = max((int(row[4]), int(row[5])) for row in rows)
        shares, gain, because = change
        self._eras.append(Era(since, shares))
        logging.getLogger("paceline").info(
            "epoch %d, from sample %d on, steps are cut to %s (%.0f %% shorter): %s",
            *since, _short(shares), 100 * gain, because,
        )

    def _may_change(self, times: list[tuple[float, float]]) -> bool:
        """Whether the cut may change after these samples and seconds of each rank."""
        return True

    def _steps_to_look_at(self) -> int:
        """The number of steps that this look covers; 0 if no look is due yet."""
        self._steps += 1
        early = min(_EARLY_EVERY, self._options.every)
        beyond = self._steps - _EARLY_LOOKS * early
        every = early if beyond <= 0 else self._options.every
        return every if beyond % every == 0 else 0

    def _row(self, reached: Place) -> list[float]:
        window, clock = self._window, self.clock
        row = [0.0] * _COLUMNS
        if window.marks:
            seconds = math.fsum(clock.between(*marks) for marks in window.marks)
            row[:2] = [float(window.samples), seconds / len(window.marks)]
        if window.first is not None:
            row[2:4] = [float(window.first[0]), clock.between(*window.first[1])]
        terms = (self._batch, self._world, self.least, self.most, self._options.every,
                 self._options.gain, [(*one.since, *one.shares) for one in self._eras[-2:]])
        row[4:] = [float(reached[0]), float(reached[1]), float(zlib.crc32(repr(terms).encode()))]
        return row

    def _must_agree(self, rows: list[list[float]]) -> None:
        if len(rows) == self._world and len({row[6] for row in rows}) == 1:
            return
        raise DataError(
            what="the ranks would cut the next steps differently",
            where="CutBySpeed",
            why=f"{len(rows)} of {self._world} ranks answered"
            if len(rows) != self._world
            else "their loaders have different arguments, or different restored positions",
            fix="use the same arguments and the same checkpoint on every rank, and a gather "
                "over the ranks that share the loader's steps",
        )

    def _hear(self, times: list[tuple[float, float]]) -> None:
        silent = [rank for rank, (_, seconds) in enumerate(times) if seconds <= 0]
        self._unheard = self._unheard + 1 if silent else 0
        if self._unheard == _UNHEARD_LOOKS:
            logging.getLogger("paceline").warning(
                "cuts stay even: rank %d and %d others never reported when their own work for "
                "a step was done; call weigh_by_samples(model, loader) once, or "
                "loader.worked() before gradients are exchanged", silent[0], len(silent) - 1,
            )

    # ---- state ----

    def state(self, place: Place) -> Json:
        """The eras that cut the steps from `place` on. A restart cuts them in the same way."""
        now = max(i for i, one in enumerate(self._eras) if one.since <= place)
        eras = [[*one.since, *one.shares] for one in self._eras[now:]]
        return {"global_batch": self._batch, "world_size": self._world, "eras": eras}

    def load(self, saved: object) -> None:
        """Continue with a saved cut, or with equal shares if another world size saved it."""
        self._eras = self._fitting(saved)
        shares = self._eras[-1].shares
        self._machine = SpeedCut(self._batch, self.least, self.most, self._options.gain, shares)
        self._window = _Window()
        self._measured: Era | None = None
        self._steps = 0
        self._unheard = 0
        self._began: Any = None
        self._ended: Any = None

    def _fitting(self, saved: object) -> list[Era]:
        even = [cut_evenly(0, self._batch, rank, self._world) for rank in range(self._world)]
        fresh = [Era((0, 0), [end - begin for begin, end in even])]
        fields = cast("Json", saved) if isinstance(saved, dict) else {}
        same = (fields.get("global_batch"), fields.get("world_size")) == (self._batch, self._world)
        eras = fields.get("eras")
        if not same or not isinstance(eras, list):
            return fresh
        found: list[Era] = []
        for one in cast("list[object]", eras):
            numbers = cast("list[int]", one) if isinstance(one, list) else []
            if len(numbers) != 2 + self._world or not all(type(n) is int for n in numbers):
                return fresh
            shares = numbers[2:]
            if sum(shares) != self._batch or min(shares) < self.least or max(shares) > self.most:
                return fresh
            found.append(Era((numbers[0], numbers[1]), shares))
        if not found:
            return fresh
        return [Era((0, 0), found[0].shares), *found[1:]]


def _bounds(options: CutBySpeed, batch: int, world: int, micro: int) -> tuple[int, int]:
    """The smallest and the largest share of a rank, in samples."""
    even = batch // world
    larger = -(-batch // world)
    least, most = options.least, min(max(larger, math.floor(options.most * even)), batch)
    if micro:
        # All ranks have the same number of parts, none of them empty. Too few parts do not fit
        # large shares, and with too many a small share has empty ones. So take the middle.
        parts = min(-(-most // micro), -(-(-(-larger // micro) + even) // 2))
        least, most = max(least, parts), min(most, micro * parts)
    if least >= even or most < larger:
        bound = f"micro_batch={micro}" if micro else f"least={options.least}"
        raise _refused(
            f"with {bound}, every cut is even",
            f"an even share of {batch} samples on {world} ranks is {even}",
            "use a larger global_batch, or leave cut out",
        )
    return least, most


def _refused(what: str, why: str, fix: str) -> DataError:
    return DataError(what=what, where="CutBySpeed", why=why, fix=fix)


def _short(shares: list[int]) -> str:
    if len(shares) <= 16:
        return " ".join(map(str, shares))
    return f"{min(shares)} to {max(shares)} samples"
