"""Storage that does not answer while a rank restores is waited for, and that is said.

A rank that ended at once would be restarted at once, and a short outage would cost the job all its
restarts. What was read and does not hold is another matter: that is damaged, and nobody waits.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from paceline._native import Manifest
from paceline._restore.images import UnreadableError

T = TypeVar("T")

STORAGE_SECONDS = 600.0
"""So long a rank waits for storage; then it ends with an error, and the checkpoint stays."""
FILE_SECONDS = 60.0
"""So long for one file, where storage does answer: then its disk has lost it."""

_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 5.0


def read_patiently(
    read: Callable[[], T],
    folder: str,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What `read` returns, asked again while the checkpoint in `folder` cannot be read.

    A directory of checkpoints that is not there, or is empty, is one that is not mounted.

    Raises UnreadableError: with `is_away` when storage did not come back in STORAGE_SECONDS,
    without when it answers and this file is not readable for FILE_SECONDS, or is damaged.
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
            if not error.is_all_away and _answers(folder):
                if waited >= FILE_SECONDS:
                    raise UnreadableError(str(error), rank=error.rank) from error
            elif waited >= STORAGE_SECONDS:
                raise UnreadableError(str(error), is_away=True) from error
            if not is_told:
                _say(f"{folder} cannot be read now ({error}); trying again for up to "
                     f"{STORAGE_SECONDS / 60:.0f} minutes")
                is_told = True
            sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            continue
        if is_told:
            _say(f"{folder} was read after {now() - began:.0f} s")
        return found


def _is_gone(directory: str) -> bool:
    try:
        return not os.listdir(directory)
    except OSError:
        return True


def _answers(folder: str) -> bool:
    """Whether the storage can be asked: a small file of the same folder is read."""
    try:
        Manifest.read(folder)
    except (LookupError, OSError, RuntimeError):
        return False
    return True


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr, flush=True)
