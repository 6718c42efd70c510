"""A directory of checkpoints that is gone while a script trains: what brings it back.

The keeper writes nothing into a path that it would have to make. Once the directory is there again,
new or moved back, it writes the next step.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from paceline._checkpoint.link import Refused
from paceline._rank import progress

_ANSWER_SECONDS = 1.0  # for a look at a file system, which may never answer
_WAIT_SECONDS = 1.0  # in storage within that time, nothing has to be said
_MEND = "mend the storage: "


def is_gone(place: str) -> bool:
    """Whether the file system answers that there is no such directory."""
    found: list[bool] = []
    if not place.startswith("/"):  # an object store
        return False
    look = threading.Thread(
        target=lambda: found.append(os.path.isdir(place)), name="directory", daemon=True
    )
    look.start()
    look.join(_ANSWER_SECONDS)
    return found == [False]


def fix_of(refused: Refused, place: str) -> str:
    """What to do about that refusal of storage."""
    if not is_gone(place):
        return refused.fix
    return f"{_back(place)}; {refused.fix.removeprefix(_MEND)}"


@contextmanager
def told(place: str, step: int) -> Iterator[None]:
    """For the time in which `close` waits for that step: one line if the directory is gone."""
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
        print(f"paceline: {text}; {_back(place)}", file=sys.stderr, flush=True)


def _back(place: str) -> str:
    return f"mkdir {place}, or move it back"
