"""What a script reports to its launcher: steps, loss, checkpoints, its current phase."""

import os
import sys

TYPE_CHECKING = False  # as typing's, whose import would take longer than this whole package
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paceline._base.launch import Launch
    from paceline._native import Session
    from paceline._rank.step_times import StepTimes

_session: "Session | None" = None
_times: "StepTimes | None" = None
_opened = False
_known: "Launch | None" = None


def _launch() -> "Launch":
    global _known
    if _known is None:
        from paceline._base.launch import Launch

        _known = Launch.from_environment()
    return _known


def session() -> "Session | None":
    """This process's slot on the progress page. None without a launcher or in a rank's child."""
    global _session, _opened
    if not _opened:
        _opened = True
        launch = _launch()
        if launch.page is not None:
            _session = _open(launch, launch.page)
    return _session


def _open(launch: "Launch", page: str) -> "Session | None":
    from paceline._native import Session

    try:
        opened = Session.open(page=page, slot=launch.slot, generation=launch.generation)
    except (OSError, RuntimeError):
        # A child of a rank, or a process of an earlier world. It reports nothing.
        return None
    os.register_at_fork(after_in_child=_abandon)
    return opened


def _abandon() -> None:
    """In a forked child: the slot belongs to the parent, so forget it."""
    global _session, _times
    _session = _times = None


def time_steps(times: "StepTimes") -> None:
    """Tell `times` each step that the script reports."""
    global _times
    _times = times


def restart() -> None:
    """Read the launcher's variables again. The starter's child calls this once they are set."""
    global _session, _opened, _known, _times
    _session, _opened, _known, _times = None, False, None, None


def step(
    n: int,
    loss: float | None = None,
    grad_norm: float | None = None,
    *,
    total: int | None = None,
) -> None:
    """Report that step `n` of the whole training is done: `pl.step(1200, loss=0.31)`.

    A loss or a norm of the gradients that is NaN, infinite or far above the last ones is reported
    once for several such steps in a row.

    Args:
        n: the step, 0 or more, counted over the whole training.
        loss: of that step, if it is to be watched.
        grad_norm: the norm of that step's gradients, if it is to be watched.
        total: the number of steps of the whole training, if it is known. `paceline status` then
            shows what is left. A Trainer's own number is known without this.

    Raises:
        ArgumentError: `n` or `total` is no step, or `loss` or `grad_norm` no number.
    """
    n = _whole("step", n)
    if loss is not None and type(loss) is not float:
        loss = _loss("loss", loss)
    if grad_norm is not None and type(grad_norm) is not float:
        grad_norm = _loss("grad_norm", grad_norm)
    current = session()
    if current is not None:
        if total is not None:
            current.ends_at(_whole("step", total, "total"))
        if loss is None and grad_norm is None:
            current.step(n)
        else:
            current.step(n, loss, grad_norm)
        if _times is not None:
            _times.told(n)


def _loss(name: str, value: object) -> float:
    from paceline._base import arguments

    return arguments.loss("paceline.step", value, name)


def saved(n: int) -> None:
    """Report that the checkpoint of step `n` is complete and will not change: `pl.saved(1200)`.

    Raises:
        ArgumentError: `n` is no step.
    """
    n = _whole("saved", n)
    current = session()
    if current is not None:
        current.saved(n)


def shares_batch() -> None:
    """Report that the ranks share a global batch, so that a step is the same in any world."""
    current = session()
    if current is not None:
        current.shares_batch()


def phase(name: str) -> "AbstractContextManager[None]":
    """The whole block belongs to one phase: `with pl.phase("eval"): …`.

    Blocks may be nested: the innermost one counts. Without a launcher, and in threads other than
    the script's own, this does nothing.

    Args:
        name: "eval": evaluation, sampling or other long work without training steps. It is never
            judged to hang; after 10 s the launcher says that the other ranks wait for this one.
            "checkpoint": saving by other means than paceline's. "data": reading or preparing data
            without a torch DataLoader.

    Raises:
        ArgumentError: another name.
    """
    from paceline._rank import flight, phases

    numbers = {"eval": flight.EVALUATION, "checkpoint": flight.CHECKPOINT, "data": flight.DATA}
    if name not in numbers:
        from paceline._base import arguments

        arguments.one_of("paceline.phase", "name", name, numbers)
    own = phases.current()
    return phases.NOTHING if own is None else own.within(numbers[name])


def _whole(call: str, n: object, name: str = "n") -> int:
    """`n` as an int. Runs in each step, so `arguments` is imported only for unusual types."""
    if type(n) is int and 0 <= n < 2**53:
        return n
    from paceline._base import arguments

    return arguments.count(f"paceline.{call}", name, n, least=0)


def is_managed() -> bool:
    """Whether this process is a rank of a paceline job: `if not pl.is_managed(): …`."""
    return session() is not None


def rank() -> int:
    """This process's rank, 0 without a launcher: `if pl.rank() == 0: …`."""
    return _in_group()[0]


def _in_group() -> tuple[int, int]:
    """Rank and world size. srun sets neither variable, so the process group is asked."""
    launch = _launch()
    if not launch.has_world and "torch.distributed" in sys.modules:
        from paceline.integrations.process_group import default_group

        group = default_group()
        if group is not None:
            return group.rank, group.size
    return launch.rank, launch.world_size


def local_rank() -> int:
    """The rank's number on its node, from 0: `torch.device("cuda", pl.local_rank())`."""
    return _launch().local_rank


def world_size() -> int:
    """The number of ranks, 1 without a launcher: `shard(data, pl.world_size())`."""
    return _in_group()[1]


def generation() -> int:
    """The world's generation, 0 without a launcher: `log(generation=pl.generation())`."""
    return _launch().generation
