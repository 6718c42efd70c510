"""Excludes concurrent calls: during a restore no other thread saves, waits or closes.

A save reads the state and a restore changes it. Both use one connection to the keeper, so each
would read the other's answers.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.errors import CheckpointError

_RESTORE = "restore"


class OneCall:
    """`with calls.entered("save"):` raises if another thread is in a call that excludes this one.

    Calls of one thread may be nested, as in a signal handler.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._by_thread: dict[int, str] = {}
        self._lock = threading.RLock()  # a signal handler may enter while its thread holds it

    @contextmanager
    def entered(self, call: str) -> Iterator[None]:
        """Mark this thread as being in the call `call`, for the block."""
        thread = threading.get_ident()
        with self._lock:
            others = [one for known, one in self._by_thread.items() if known != thread]
            if others and (call == _RESTORE or _RESTORE in others):
                other = _RESTORE if _RESTORE in others else others[0]
                raise CheckpointError(
                    what=f"cannot {call}: another thread is in {other}()",
                    where=self._where,
                    why="a restore changes the state that the other call uses, so they may "
                        "not run at the same time; nothing was changed",
                    fix="call them from one thread, or hold a threading.Lock around each of them",
                )
            before = self._by_thread.get(thread)
            self._by_thread[thread] = call
        try:
            yield
        finally:
            with self._lock:
                if before is None:
                    del self._by_thread[thread]
                else:
                    self._by_thread[thread] = before
