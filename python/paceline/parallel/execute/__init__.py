"""Carrying out a plan with torch's own parts: one file for each way to run a rank's share."""

from paceline.parallel.execute.common import Executor, Idle, Work
from paceline.parallel.execute.data import Replica
from paceline.parallel.execute.pipeline import Pipelined
from paceline.parallel.execute.shard import Sharded
from paceline.parallel.execute.step import Stepper

__all__ = ["Executor", "Idle", "Stepper", "Work", "executor_for"]


def executor_for(work: Work) -> Executor:
    """What carries out this rank's part of the plan; the model of `work` is changed in place."""
    if work.place is None:
        return Idle(work)
    if work.plan.is_pipeline:
        return Pipelined(work)
    return Sharded(work) if work.plan.shard else Replica(work)
