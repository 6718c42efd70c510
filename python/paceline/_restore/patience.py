"""Waits, and says so, when storage does not answer during a restore.

A rank that ended at once would be restarted at once, and a short outage would use up the restart
budget. A damaged checkpoint is different: it was read, so waiting does not help.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from paceline._base.wording import say
from paceline._native import Manifest
from paceline._restore.images import UnreadableError

T = TypeVar("T")

STORAGE_SECONDS = 600.0
"""How long a rank waits for storage. Then it ends with an error, and the checkpoint stays."""
FILE_SECONDS = 60.0
"""How long a rank waits for one file while storage answers. Then the file counts as lost."""
DENIED_SECONDS = 15.0
"""How long a rank waits for the right to read, because a network share may grant it again."""

_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 5.0


def read_patiently(
    read: Callable[[], T],
    folder: str,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call `read` again while the checkpoint in `folder` cannot be read; returns its result.

    A missing or empty checkpoint directory counts as not mounted.

    Raises UnreadableError: with `is_away` if storage did not answer for STORAGE_SECONDS, or denied
    the rights to read for DENIED_SECONDS; without it if storage answers and this file is damaged,
    or unreadable for FILE_SECONDS.
    """
    began = now()
    pause = _PAUSE_SECONDS
    is_told = False
    while True:
        try:
            found = read()
        except UnreadableError as error:
            if not error.is_away and not _is_gone(os.path.dirname(folder)):
                raise
            waited = now() - began
            limit = DENIED_SECONDS if error.is_denied else STORAGE_SECONDS
            is_one_file = not error.is_denied and not error.is_all_away and _answers(folder)
            if is_one_file and waited >= FILE_SECONDS:
                raise UnreadableError(str(error), rank=error.rank) from error
            if not is_one_file and waited >= limit:
                raise UnreadableError(
                    str(error), is_away=True, is_denied=error.is_denied
                ) from error
            if not is_told:
                say(f"{folder} cannot be read now ({error}); trying again for up to "
                    f"{_said(limit)}")
                is_told = True
            sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            continue
        if is_told:
            say(f"{folder} was read after {now() - began:.0f} s")
        return found


def _said(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"


def _is_gone(directory: str) -> bool:
    try:
        return not os.listdir(directory)
    except OSError:
        return True


def _answers(folder: str) -> bool:
    """Whether the storage answers: reads a small file of the same folder."""
    try:
        Manifest.read(folder)
    except (LookupError, OSError, RuntimeError):
        return False
    return True
