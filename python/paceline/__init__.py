"""paceline: training that keeps going through failures.

A script needs none of these calls: torch's optimizer hook counts the steps. They report more:

    import paceline as pl

    pl.step(n, loss=loss.item())  # step n of the whole training is done
    pl.saved(n)  # the checkpoint of step n is complete
    with pl.phase("eval"):  # a long evaluation may be named, and is never restarted
        evaluate()

Without a launcher every call does nothing.
"""

from paceline._rank.progress import (
    generation,
    is_managed,
    local_rank,
    phase,
    rank,
    saved,
    step,
    world_size,
)

__all__ = [
    "generation",
    "is_managed",
    "local_rank",
    "phase",
    "rank",
    "saved",
    "step",
    "world_size",
]
