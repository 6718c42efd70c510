"""Finds the ledger that knows a saved position of leased data, also that of another run."""

from paceline._base import launch
from paceline._data.order import Json
from paceline.errors import DataError


def made_in() -> str | None:
    """The run directory whose ledger knows this process's positions. None: only this process
    knows them.
    """
    return launch.run_dir() if launch.lease_socket() is not None else None


def whereabouts(name: str, position: str, saved: Json) -> str:
    """The question for the ledger: the position, and where else it is known.

    One line each: the position; the run directory of the job that made it; the finished ranges, if
    a process without a job made it.
    """
    run = saved.get("run")
    if launch.lease_socket() is not None:
        if "run" not in saved:
            return position
        if run is None:
            return f"{position}\n\n{saved.get('ranges', '')}"
        return position if run == launch.run_dir() else f"{position}\n{run}"
    if run is not None:
        raise DataError(
            what="a single process has no record of what the ranks of a job have read",
            where=f"the data set {name}",
            why=f"the record of the checkpoint's position is in {run}",
            fix="start the script by `paceline run`, or leave the loader out of the state to "
                "start from the first sample",
        )
    return position
