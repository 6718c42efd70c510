"""The errors of embedding tables, in four parts."""

from paceline._data.in_hand import Batch
from paceline.errors import TableError

_WHERE = "Optimizer.step"


def no_batch() -> TableError:
    return TableError(
        code="PL-E195",
        what="the optimizer does not know which batch this is",
        where=_WHERE,
        why="tables apply each batch once, and know it by its place in a LeasedLoader's data; the "
            "loop reads from another loader, or has left the loop",
        fix="for batch in paceline.torch.LeasedLoader(data, name=…, batch_size=…): … opt.step()",
    )


def two_steps(batch: Batch) -> TableError:
    return TableError(
        code="PL-E196",
        what="two steps for one batch",
        where=f"{_WHERE}, {_of(batch)}",
        why="tables apply each batch once, so they would skip the gradients of the second step",
        fix="call step() once in each turn of the loop; sum several losses before backward()",
    )


def other_table(name: str, why: str) -> TableError:
    return TableError(
        code="PL-E197",
        what=f"the table {name} is open in another form",
        where=f"the table {name}",
        why=why,
        fix="the same dim, optimizer, seed and scale everywhere, or another name",
    )


def not_finite(batch: Batch, why: str) -> TableError:
    return TableError(
        code="PL-E198",
        what="a gradient is not finite, and nothing of this batch was applied",
        where=f"{_WHERE}, {_of(batch)}",
        why=why,
        fix="look for the sample or the loss that gives it; zero_grad() instead of step() leaves "
            "the batch out",
    )


def of_another_batch(table: str, batch: Batch) -> TableError:
    return TableError(
        code="PL-E199",
        what=f"the table {table} has gradients of an earlier batch",
        where=f"{_WHERE}, {_of(batch)}",
        why="the earlier batch was acknowledged without a step, so its gradients would count twice "
            "or not at all after a failure",
        fix="call step() or zero_grad() before the loop takes the next batch; a larger batch_size "
            "in the place of accumulated gradients",
    )


def divided(batch: Batch) -> TableError:
    is_late = batch.obstacle == "late"
    return TableError(
        code="PL-E200",
        what="the batches of this loader may be divided after a failure",
        where=f"{_WHERE}, {_of(batch)}",
        why="its first lease was taken before a table was made in this process"
        if is_late
        else 'resume="checkpoint" takes the data back to a checkpoint, and tables do not go back',
        fix="make the tables before the loop" if is_late else 'leave out resume="checkpoint"',
    )


def refused(batch: Batch, answer: str, why: str) -> TableError:
    is_fenced = answer == "fenced"
    return TableError(
        code="PL-E202" if is_fenced else "PL-E201",
        what="the tables refuse this batch",
        where=f"{_WHERE}, {_of(batch)}",
        why=why,
        fix="nothing to do: the samples are leased again"
        if is_fenced
        else "the same batch_size in all workers, and one loader a data set",
    )


def of_another_process(owner: int, own: int) -> TableError:
    return TableError(
        code="PL-E204",
        what="tables belong to the process that made them",
        where=f"process {own}",
        why=f"they were made in process {owner}, and this is a child of that process",
        fix="look rows up in the training loop, not in a DataLoader's workers",
    )


def server_away(why: str) -> TableError:
    return TableError(
        code="PL-E210",
        what="a table server does not answer",
        where="paceline.embedding",
        why=why,
        fix="paceline tasks shows the server's last failure; paceline run --resume RUN_DIR goes on",
    )


def of_several_ranks(count: int) -> TableError:
    return TableError(
        code="PL-E203",
        what=f"{count} ranks would each have tables of their own",
        where="paceline.embedding",
        why="without table servers, tables lie in the process, and ranks do not share them",
        fix="paceline run --workers 2 --ps 1 --tables DIR train.py, or python train.py",
    )


def _of(batch: Batch) -> str:
    ranges = ", ".join(f"{begin} to {end - 1}" for begin, end in batch.ordinals)
    return f"samples {ranges} of {batch.data_set}"
