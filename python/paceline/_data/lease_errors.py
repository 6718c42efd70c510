"""The errors of loaders of leased data, in four parts."""

import logging

from paceline.errors import DataError


def two_loops(name: str) -> DataError:
    return DataError(
        what="two loops over one loader",
        where=f"the data set {name}",
        why="each would get samples that the other one acknowledges",
        fix="make a loader in each worker process; they share the data set",
    )


def of_another_process(name: str, owner: int, own: int) -> DataError:
    return DataError(
        what="a loader's leases belong to the process that took them",
        where=f"the data set {name}, process {own}",
        why=f"it was used in process {owner} and is now used in a child of that process",
        fix="make the loader in the child, or read in workers: paceline.torch.LeasedLoader",
    )


def two_loaders(name: str) -> DataError:
    return DataError(
        what=f"two loaders of one process lease the data set {name}",
        where=f"the data set {name}",
        why="a process can lease a data set only once",
        fix="use another name= for another data set, or close() the first loader",
    )


def fenced(name: str, rank: int) -> DataError:
    return DataError(
        what="a newer process has taken over from this worker",
        where=f"the data set {name}, rank {rank}",
        why="the job has started this rank again, so the work of this process no longer counts",
        fix="nothing to do: the new process goes on",
    )


def of_ledger(name: str, text: str) -> DataError:
    """The ledger's error. `text` has what, why and fix, one on each line."""
    what, why, fix = [*text.split("\n"), "", "", ""][:3]
    return DataError(what=what, where=f"the data set {name}", why=why, fix=fix)


def lost(name: str, rank: int) -> DataError:
    return DataError(
        what="samples that this rank worked on were leased to another rank",
        where=f"the data set {name}, rank {rank}",
        why="it acknowledged nothing for too long, or its node was silent",
        fix="nothing to do under paceline run: training goes on from a checkpoint; a larger "
            "deadline= gives workers more time",
    )


def follows_none(name: str, call: str) -> DataError:
    return DataError(
        what="the position of this data set is not saved in checkpoints",
        where=f"{call} of the data set {name}",
        why='it was made with resume="acks": a restart goes on after the acknowledged samples',
        fix='resume="checkpoint", or leave it out of the state that is saved',
    )


def no_position(schema: str, state: object) -> DataError:
    return DataError(
        what="the state is not a position of a leased data set",
        where="load_state_dict",
        why=f"it is not a {schema} with a mark: {str(state)[:80]}",
        fix="call mark(step) before state_dict(), or save with a Checkpointer, which calls it",
    )


def remainder(name: str, ordinals: int, ranks: int) -> DataError:
    return DataError(
        what="the samples cannot be shared evenly, and drop_last=False leaves none out",
        where=f"the data set {name}, {ordinals} samples of all epochs",
        why=f"ranks that save the same steps have a common last step, and {ordinals % ranks} of "
        f"them are left for {ranks} ranks",
        fix="use drop_last=True, which leaves these out, or uneven=True if the loop has no "
            "collectives",
    )


def other_order(name: str) -> DataError:
    return DataError(
        what="the sampler gives another order than before the restart",
        where=f"the data set {name}",
        why="its indices of epoch 0 differ from those of the checkpoint, so samples would be "
            "read twice or not at all",
        fix="use a sampler whose order follows from seed and epoch, or from a generator with a "
            "seed",
    )


def tell_left_out(name: str, count: int, ranks: int) -> None:
    """Log a warning if samples are left out. It is not an error."""
    if count:
        logging.getLogger("paceline").warning(
            "%d samples at the end of the data set %s are left out: %d ranks cannot share them "
            "evenly; if the loop has no collectives, uneven=True reads them too",
            count, name, ranks)
