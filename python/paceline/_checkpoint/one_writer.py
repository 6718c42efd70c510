"""The open Checkpointers of this process: one for a directory, and one directory for a job.

Two Checkpointers on one directory would overwrite each other's images in memory. A closed or
garbage-collected one does not count.
"""

import gc
import os
import sys
import weakref
from dataclasses import dataclass

from paceline._base.wording import say
from paceline._checkpoint.link import Fields
from paceline.errors import CheckpointError

_PACKAGE = os.path.dirname(os.path.dirname(__file__))


@dataclass(frozen=True)
class _Open:
    owner: "weakref.ref[object]"
    made_at: str
    pid: int  # a forked child inherits this list; its entries count in the parent only


_open: dict[str, _Open] = {}  # by directory
_of_job: dict[str, "_First"] = {}  # by socket of the keeper


@dataclass(frozen=True)
class _First:
    """The first Checkpointer of a job."""

    directory: str
    made_at: str
    terms: Fields


def check(directory: str, job_socket: str) -> None:
    """Raise if this process may not make a Checkpointer for `directory` now.

    `job_socket` is the socket of the job's keeper; "" without a launcher.
    """
    first = _of_job.get(job_socket)
    if first is not None and first.directory != directory:
        raise CheckpointError(
            what="a job has one Checkpointer",
            where=directory,
            why=f"this rank made one for {first.directory} already, at {first.made_at}",
            fix='save both in one state, as {"model": model, "ema": ema}; to read another '
            "directory, pl.load(directory, state)",
            is_final=True,
        )
    before = _living(directory)
    if before is None:
        return
    raise CheckpointError(
        what="this process saves to that directory already",
        where=directory,
        why=f"the Checkpointer made at {before.made_at} is still open there, and each would "
            "overwrite the other's saves",
        fix="use that one, or close() it first; save two models as one state, such as "
        '{"model": model, "ema": ema}; to read only, pl.load(directory, state)',
        is_final=True,
    )


def check_process(maker: int, what: str, directory: str) -> None:
    """Raise if this process is not `maker`, the process that made the Checkpointer.

    A forked child inherits the arena, which is shared memory, and the connection to the keeper. Its
    saves would replace the parent's, and the keeper could not tell them apart.
    """
    if maker == os.getpid():
        return
    raise CheckpointError(
        what=f"cannot {what}: this Checkpointer belongs to another process",
        where=directory,
        why=f"process {maker} made it, and this is process {os.getpid()}, a fork: both would "
            "write to the same memory",
        fix=f"call it in process {maker} only; to read in a fork, pl.load(directory, state)",
        is_final=True,
    )


def terms_in(job_socket: str, asked: Fields) -> Fields:
    """The terms to use: those of the job's first Checkpointer. Prints a line if `asked` differs.

    Retention and interval belong to the job, because its ranks could not change them together.
    """
    first = _of_job.get(job_socket)
    if first is None or first.terms == asked:
        return asked
    text = f"the Checkpointer made at {_caller()} keeps the job's terms, of the one made at"
    say(f"{text} {first.made_at}")
    return first.terms


def note(owner: object, terms: Fields, job_socket: str) -> None:
    """Note that `owner` saves to the directory in `terms`."""
    directory, made_at = str(terms["directory"]), _caller()
    _open[directory] = _Open(weakref.ref(owner), made_at, os.getpid())
    if job_socket:
        _of_job.setdefault(job_socket, _First(directory, made_at, terms))


def forget(owner: object, directory: str) -> None:
    """Note that `owner` is closed."""
    found = _open.get(directory)
    if found is not None and found.owner() is owner:
        del _open[directory]


def _living(directory: str) -> _Open | None:
    found = _open.get(directory)
    if found is None or found.pid != os.getpid():
        return None
    if found.owner() is not None:
        gc.collect()  # needed, because the Checkpointer and its last ticket refer to each other
    return found if found.owner() is not None else None


def _caller() -> str:
    """FILE:LINE of the first frame that is not of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
