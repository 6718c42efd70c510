"""Handles a checkpoint directory that was deleted while the script trains.

The keeper does not make a missing directory. When the directory exists again, new or moved back,
the keeper writes the next step.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from paceline._base.wording import say
from paceline._rank import progress

_ANSWER_SECONDS = 1.0  # for one look at a file system, which may hang
_WAIT_SECONDS = 1.0  # if storage takes the save within this time, nothing is printed
_MEND = "repair the storage; "


def is_gone(place: str) -> bool:
    """Whether the file system reports that the directory does not exist."""
    found: list[bool] = []
    if not place.startswith("/"):  # an object store
        return False
    look = threading.Thread(
        target=lambda: found.append(os.path.isdir(place)), name="directory", daemon=True
    )
    look.start()
    look.join(_ANSWER_SECONDS)
    return found == [False]


def fix_of(fix: str, place: str) -> str:
    """The fix to print when storage refuses a save; `fix` is the keeper's."""
    return f"{_back(place)}; {fix.removeprefix(_MEND)}" if is_gone(place) else fix


@contextmanager
def told(place: str, step: int) -> Iterator[None]:
    """While `close` waits for that step, print one line if the directory is gone."""
    timer = threading.Timer(_WAIT_SECONDS, _tell, (place, step))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(place: str, step: int) -> None:
    if progress.local_rank() == 0 and is_gone(place):
        text = f"close() waits until step {step} is in storage: {place} is not there"
        say(f"{text}; {_back(place)}")


def _back(place: str) -> str:
    return f"mkdir {place}, or move it back"
