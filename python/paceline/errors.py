"""The errors that paceline raises: each says what happened, where, why, and how to mend it.

    from paceline.errors import CheckpointError

    try:
        step = ckpt.restore(state)
    except CheckpointError as error:
        print(error.what, error.fix)
"""

import os
from typing import Self

__all__ = ["ArgumentError", "CheckpointError", "DataError", "PacelineError", "TableError"]


class ScriptLine(str):
    """A line of a script as the `where` of an error: `ScriptLine("/home/u/train.py", 12)` is the
    text "train.py:12". The record of the error names it, instead of the line that raised.
    """

    file: str
    number: int

    def __new__(cls, file: str, number: int) -> Self:
        made = super().__new__(cls, f"{os.path.basename(file)}:{number}")
        made.file, made.number = file, number
        return made


class PacelineError(Exception):
    """Four parts: `what` happened, `where`, `why`, and the `fix`.

    >>> raise PacelineError(what="no room", where="/dev/shm", why="it is full", fix="remount it")
    """

    is_final: bool = False
    """No restart can mend it, so `paceline run` stops the job at the first such error."""

    def __init__(
        self, *, what: str, where: str, why: str, fix: str, is_final: bool | None = None
    ) -> None:
        if is_final is not None:
            self.is_final = is_final
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        super().__init__(f"{what}\n  where  {where}\n  why    {why}\n  fix    {fix}")


class ArgumentError(PacelineError, ValueError, TypeError):
    """An argument that a call does not accept, in four parts. Also a ValueError and a TypeError."""


class CheckpointError(PacelineError):
    """A checkpoint that cannot be saved or restored, in four parts."""


class DataError(PacelineError):
    """Data that cannot be read as asked, in four parts."""


class TableError(PacelineError):
    """Tables that cannot be used as asked, in four parts. `paceline why` explains `code`."""

    def __init__(self, *, what: str, where: str, why: str, fix: str, code: str = "") -> None:
        self.code = code
        super().__init__(what=f"{what} [{code}]" if code else what, where=where, why=why, fix=fix)
