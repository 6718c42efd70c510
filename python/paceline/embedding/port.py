"""This process's way to the tables: kept in the process, or on the job's table servers."""

import os
from collections.abc import Callable
from typing import TypeVar, cast

from paceline._base import launch
from paceline._data import in_hand
from paceline._native import Tables
from paceline._rank import progress
from paceline.embedding import table_errors

T = TypeVar("T")
Memory = tuple[int, int]
"""Address and elements of a contiguous tensor in this process."""

_tables: Tables | None = None
_pid = 0


def tables() -> Tables:
    """The tables, connected at the first call."""
    global _tables, _pid
    if _tables is None:
        servers = launch.table_servers()
        if servers is None and progress.world_size() > 1:
            raise table_errors.of_several_ranks(progress.world_size())
        _tables = Tables.own() if servers is None else Tables.served(*servers)
        _pid = os.getpid()
    if _pid != os.getpid():
        raise table_errors.of_another_process(_pid, os.getpid())
    return _tables


def leave_out(batch: in_hand.Batch) -> None:
    """Count a batch as applied on all tables, without gradients.

    Raises:
        TableError: the tables refuse it, or a server was away for too long.
    """
    rest = [batch.ordinals]
    while rest:
        ordinals = rest.pop()
        answer, why = wait(lambda some=ordinals: tables().push(
            batch.data_set, some, batch.rank, batch.incarnation, 0, []))
        if answer == "overlaps":
            rest += [[part] for part in tables().parts()]
        elif answer not in ("applied", "skipped"):
            raise table_errors.refused(batch, answer, why)


def wait(call: Callable[[], T | None]) -> T:
    """Repeat a call that answers None or False while a server is away.

    Each call waits for a moment. Python handles signals between two of them.

    Raises:
        TableError: a server was away for too long.
    """
    while True:
        try:
            answer = call()
        except OSError as error:
            raise table_errors.server_away(error.filename or str(error)) from None
        if answer is not None and answer is not False:
            return cast("T", answer)
