"""The data of a job with a plan: each replica reads its share of each step."""

from typing import TYPE_CHECKING, Any

from paceline._native import cut_evenly
from paceline.integrations.elastic_loader import ElasticLoader
from paceline.parallel.plan import ParallelPlan

if TYPE_CHECKING:
    from paceline.parallel.replan import PlannedCutter


class PlannedLoader(ElasticLoader):
    """An ElasticLoader whose shares are those of a plan.

    Each batch is the whole share of this rank's replica. All ranks of a pipeline read the same
    batch. The position in the data does not depend on the plan, only on the global batch. So
    training can go on from it under another plan.
    """

    def __init__(
        self,
        data: Any,
        plan: ParallelPlan,
        replica: int,
        *,
        cutter: "PlannedCutter | None" = None,
        **options: Any,
    ) -> None:
        self._planned = plan.shares
        options |= {"rank": replica, "world_size": plan.data, "drop_last": True}
        super().__init__(data, global_batch=plan.global_batch, **options)
        self.by_speed = cutter  # it may correct the plan's shares once

    @property
    def shares(self) -> list[int]:
        return list(self._planned) if self.by_speed is None else super().shares

    @property
    def share(self) -> int | None:
        """How many samples this rank's replica has in the present step; None before the first."""
        now = self.current
        if now is None:
            return None
        ((_, begin, end),) = self._own(now.epoch, now.step)
        return end - begin

    def _own(self, epoch: int, step: tuple[int, int]) -> list[tuple[int, int, int]]:
        if self.by_speed is not None:
            return super()._own(epoch, step)
        begin = step[0] + sum(self._planned[: self.rank])
        end = begin + self._planned[self.rank]
        parts = self._parts(step, (epoch, step[0]))
        return [
            (self.rank * parts + part, *cut_evenly(begin, end, part, parts))
            for part in range(parts)
        ]

    def _parts(self, step: tuple[int, int], place: tuple[int, int]) -> int:
        return 1
