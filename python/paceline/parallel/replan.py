"""Corrects a plan once, from what its first steps take.

A prediction has three constants for each kind of device. Where replicas take 15 % more or less than
predicted, the shares of the batch are cut again by what they really take (`data/speed_cut.h`), from
the next step on that no rank has begun to read. Stages of a pipeline stay as they are.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from paceline._data.cut import CutBySpeed, Era, Gather, Place, SpeedCutter
from paceline.integrations.by_speed import DEVICE_CLOCK, gather_over
from paceline.parallel import device as devices
from paceline.parallel.execute import Executor, Replica, Work
from paceline.parallel.plan import ParallelPlan

OFF = 0.15  # of the predicted time: from there on a plan counts as wrong
_EVERY = 8  # steps between two looks
_LOOKS = 6  # after which the plan stays as it is; a speed needs three
_GROWTH_MAX = 2  # times the largest share, as far as the memory suffices


@dataclass(frozen=True, slots=True)
class Corrected:
    """Shares by what steps take, and why."""

    shares: list[int]
    seconds: float  # of the slowest replica's own work in a step, as expected now
    because: str


class PlannedCutter(SpeedCutter):
    """The shares of a plan, until its steps turn out to take another time than predicted."""

    def __init__(
        self, plan: ParallelPlan, most: int, gather: Gather, changed: Callable[[Corrected], None]
    ) -> None:
        self._planned = list(plan.shares)
        self._expected = plan.own_seconds
        self._is_over = False
        self._exchange, self._changed = gather, changed
        self._slowest, self._seconds = 0.0, list[float]()
        options = CutBySpeed(every=_EVERY, most=float(plan.data), least=plan.micro_batches)
        super().__init__(options, global_batch=plan.global_batch, world_size=plan.data,
                         micro_batch=0)  # fmt: skip
        self.least, self.most = min(self.least, *self._planned), max(most, *self._planned)
        self.load(None)

    def look(self, gather: Gather, reached: Place) -> None:
        before = self._eras[-1]
        super().look(self._exchange, reached)
        now = self._eras[-1]
        if now is before:
            return
        self._is_over, self._planned = True, list(now.shares)
        percent = round(100 * (self._slowest / self._expected - 1))
        told = f"{abs(percent)} % {'longer' if percent > 0 else 'shorter'} than predicted"
        because = f"the steps took {told}: shares {_told(now.shares)} end together instead of " \
                  f"{_told(before.shares)}"  # fmt: skip
        rates = zip(self._seconds, before.shares, now.shares, strict=True)
        seconds = max(took * after / share for took, share, after in rates)
        self._changed(Corrected(list(now.shares), seconds, because))

    def _steps_to_look_at(self) -> int:
        self._steps += 1
        is_due = not self._is_over and self._steps % _EVERY == 0
        self._is_over = self._is_over or self._steps >= _LOOKS * _EVERY
        return _EVERY if is_due else 0

    def _may_change(self, times: list[tuple[float, float]]) -> bool:
        self._seconds = [seconds for _, seconds in times]
        self._slowest = max(self._seconds)
        return min(self._seconds) > 0 and abs(self._slowest / self._expected - 1) > OFF

    def _fitting(self, saved: object) -> list[Era]:
        """A saved cut goes on if it led to this plan's shares; that of another plan does not."""
        found = super()._fitting(saved)
        return found if found[-1].shares == self._planned else [Era((0, 0), self._planned)]


def cutter_of(
    executor: Executor, room: int, changed: Callable[[Corrected], None]
) -> PlannedCutter | None:
    """What corrects the shares of this plan; None if nothing may: see `may_correct`.

    `room` is how many bytes a device may use; 0: not known.
    """
    work = executor.work
    if not may_correct(executor):
        return None
    cutter = PlannedCutter(work.plan, largest_share(work.plan, room), _gather(work), changed)
    if work.device.type == "cuda":
        cutter.use_clock(DEVICE_CLOCK)
    return cutter


def may_correct(executor: Executor) -> bool:
    """Whether every rank is a replica with a share of its own, whose own work can be timed."""
    plan = executor.work.plan
    is_plain = type(executor) is Replica and plan.tensor == 1 and plan.data > 1
    has_room = plan.global_batch // plan.data > plan.micro_batches
    return is_plain and has_room and not plan.unused and plan.own_seconds > 0


def largest_share(plan: ParallelPlan, room: int) -> int:
    """Samples of a replica that its memory certainly holds."""
    largest = max(plan.shares)
    needed = max(plan.memory)
    if room <= 0 or needed <= 0:
        return largest
    # The memory that is needed grows at most in proportion to the share.
    return int(largest * min(_GROWTH_MAX, max(1.0, room / needed)))


def corrected(plan: ParallelPlan, found: Corrected) -> ParallelPlan:
    """The same plan with these shares; its predicted time is what was measured."""
    fields = json.loads(plan.text)
    predicted = fields["predicted"]
    step = found.seconds + predicted["communication"]
    for key in ("device_flops", "utilization"):  # absent or null where they are not known
        if predicted.get(key) is not None:
            predicted[key] *= predicted["step"] / step
    predicted |= {"step": step, "compute": found.seconds, "bubble": 0.0}
    fields |= {"shares": found.shares, "because": found.because,
               "bound": min(fields["bound"], step)}  # fmt: skip
    return ParallelPlan.parse(json.dumps(fields, separators=(",", ":")))


def room_of(place: torch.device) -> int:
    """Bytes that this rank may use of its device."""
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    return devices.memory_of(place, devices.local_ranks(ranks))


def _gather(work: Work) -> Gather:
    """A `gather` whose rows are in the order of the shares. A group's own order is by rank."""
    ranks = work.plan.stages[0].ranks
    ascending = sorted(ranks)
    order = [ascending.index(rank) for rank in ranks]
    gather = gather_over(work.replicas)

    def ordered(row: list[float]) -> list[list[float]]:
        rows = gather(row)
        return [rows[place] for place in order]

    return ordered


def _told(shares: list[int]) -> str:
    if len(shares) <= 16:
        return ", ".join(map(str, shares))
    return f"{min(shares)} to {max(shares)}"
