"""paceline: training that keeps going through failures.

A script needs none of this: steps are counted by torch's optimizer hook. Tell more, if you like:

    import paceline as pl

    pl.step(n, loss=loss.item())  # step n of the whole training is done
    pl.saved(n)  # the checkpoint of step n is complete
    with pl.phase("eval"):  # however long it takes, it is no hang
        evaluate()

Without a launcher every call is harmless.
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
