"""Carries out a plan with torch's own parts: one file for each way to run a rank's part."""

from paceline.parallel.execute.busy import Busy
from paceline.parallel.execute.common import Executor, Idle, Work, must_take
from paceline.parallel.execute.copies import pairs_of
from paceline.parallel.execute.data import Replica
from paceline.parallel.execute.pipeline import Pipelined
from paceline.parallel.execute.shard import Sharded
from paceline.parallel.execute.step import Stepper

__all__ = ["Busy", "Executor", "Idle", "Stepper", "Work", "executor_for", "must_take",
           "pairs_of"]


def executor_for(work: Work) -> Executor:
    """The executor of this rank's part of the plan. The model of `work` is changed in place."""
    if work.place is None:
        return Idle(work)
    if work.plan.is_pipeline:
        return Pipelined(work)
    return Sharded(work) if work.plan.shard else Replica(work)
