"""Whether Ray's head answers. Asked without Ray, whose own calls block while the head is away.

Ray ends each raylet, and with it every actor and driver, that has not reached the head for
`RAY_gcs_rpc_server_reconnect_timeout_s` (60 s by default). A head whose store is Redis may come
back before that, and the cluster goes on. Without Redis no head can take its place.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from ray.experimental import internal_kv

_CONNECT_SECONDS = 2.0
_RAYS_VARIABLE = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAY_GIVES_UP_SECONDS = 60.0
# So long before Ray ends everything, a job whose head cannot come back is stopped: it then has its
# newest state in storage. More than the time that its nodes get for it.
_STOP_BEFORE_SECONDS = 22.0
# So long before Ray ends the waiting process, that process says what happened.
_SAY_BEFORE_SECONDS = 8.0


def answers(address: str) -> bool:
    """Whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


class Head:
    """Ray's head at HOST:PORT, and since when it has not answered."""

    def __init__(self, address: str, *, answers: Callable[[str], bool] = answers,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.address = address
        self._answers, self._clock = answers, clock
        self._answered = clock()

    def away_seconds(self) -> float:
        """Ask the head: how long it has not answered; 0: it answers. May take two seconds."""
        now = self._clock()
        if self._answers(self.address):
            self._answered = now
            return 0.0
        return self._clock() - self._answered


def can_come_back() -> bool:
    """Whether the head has a store outside its own memory, so that another head can take its place.

    Ray has no call for it, but its head notes the kind of its store. True if the note is missing.
    """
    kind = internal_kv._internal_kv_get(b"extra_usage_tag_gcs_storage", namespace=b"usage_stats")
    return kind != b"memory"


def _ray_gives_up() -> float:
    """After how many seconds Ray ends this process, and the raylet beside it."""
    try:
        return float(os.environ[_RAYS_VARIABLE])
    except (KeyError, ValueError):
        return _RAY_GIVES_UP_SECONDS


def stop_seconds() -> float:
    """How long a head that cannot come back is waited for until its job is stopped."""
    return max(_ray_gives_up() - _STOP_BEFORE_SECONDS, _ray_gives_up() / 2)


def say_seconds() -> float:
    """How long a process waits for the head until it ends with an error of its own."""
    return max(_ray_gives_up() - _SAY_BEFORE_SECONDS, _ray_gives_up() / 2)
