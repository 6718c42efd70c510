"""Waits for the training store in small steps.

torch's TCPStore client pauses for about half a second after a refused connect. In a restarted
world, ranks are often a few milliseconds earlier than rank 0, which serves the store. Measured:
0.28 to 0.58 s for a server that is 20 to 100 ms late. So a client's rank first connects by itself,
with pauses that begin at 5 ms, and lets torch connect once the server listens. If no server ever
listens, torch is still called, so that the user sees torch's own error.

With torchrun's --master-port P ranks see P as MASTER_PORT, but paceline's master listens on P, and
each world has its own store. So a request for a store on port P, by env:// or tcp://ADDRESS:P,
gets this world's store.

A script may destroy its process group and make another one at the same address. The server of the
first one, in rank 0, would still be there for a moment, with the addresses of the group that has
ended, and then it would be gone. So rank 0 keeps its server, and the second request for a store
gets one with keys of its own. Under torchrun the agent keeps the server.

torch's server listens on all addresses of the host, without a password. A job of one host needs the
loopback address only, so there the server gets a socket that listens on that address alone.
"""

import errno
import os
import random
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

from paceline._rank.hooks.on_import import when_imported

_MODULE = "torch.distributed.rendezvous"
# torch's function that makes the store of env:// and tcp://. If a release lacks it, torch's own
# pauses remain.
_FUNCTION = "_create_c10d_store"
_PAUSE_S = 0.005
_PAUSE_MAX_S = 0.1  # upper limit, because thousands of ranks ask one host
_CONNECT_S = 1.0
_PLACE_WORDS = 3  # of PACELINE_STORE
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BACKLOG = 2048  # the value that torch uses
_LIBUV_TAKES_SOCKETS = (2, 8)  # the first torch; an older one prints an error before it refuses
_ARGUMENTS = ("host_name", "port", "world_size", "is_master")  # of torch's TCPStore, in its order


def wait_until_served(host: str, port: int, timeout_s: float) -> bool:
    """Whether a server listens there within the time: `wait_until_served("h", 1, 9.0)`."""
    end = time.monotonic() + timeout_s
    pause = _PAUSE_S
    while True:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
        except OSError:
            if time.monotonic() + pause >= end:
                return False
        else:
            return True
        # Half of the pause is random, so that the ranks of a host do not connect at the same
        # moment.
        time.sleep(pause * random.SystemRandom().uniform(0.5, 1.0))
        pause = min(pause * 1.5, _PAUSE_MAX_S)


def place_of(host: str, port: int, told: str) -> tuple[str, int]:
    """The store's address: `place_of("h", 29500, "29500 10.0.0.1 17001")` is ("10.0.0.1", 17001).

    `told` is PACELINE_STORE: the port that ranks see, then the store's address and port.
    """
    words = told.split(" ")
    if len(words) != _PLACE_WORDS or str(port) != words[0] or not words[2].isdigit():
        return host, port
    return words[1], int(words[2])


def loopback_listener(host: str, port: int) -> int | None:
    """A socket for a server of this host alone: `loopback_listener("::1", 17001)`, a descriptor.

    None if the port is in use, for example by a server in this process that torch reuses.
    """
    families = {"127.0.0.1": [socket.AF_INET], "::1": [socket.AF_INET6]}
    for family in families.get(host, [socket.AF_INET, socket.AF_INET6]):
        address = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
                listener.listen(_BACKLOG)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:  # a host without that kind of address
                    continue
                return None
            return listener.detach()
    return None


def on_loopback(make: Callable[..., Any]) -> Callable[..., Any]:
    """torch's TCPStore, except that a server for a loopback address accepts no other hosts.

    `on_loopback(TCPStore)(host_name="127.0.0.1", port=17001, world_size=2, is_master=True)`
    """

    def create(*given: Any, **named: Any) -> Any:
        told = {**dict(zip(_ARGUMENTS, given, strict=False)), **named}
        is_local = bool(told.get("is_master")) and told.get("host_name") in _LOOPBACK
        if is_local and told.get("port") and "master_listen_fd" not in named:
            listener = loopback_listener(str(told["host_name"]), int(told["port"]))
            if listener is not None:
                return _serve(make, listener, given, named)
        return make(*given, **named)

    return create


def _serve(
    make: Callable[..., Any], listener: int, given: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """A server on that socket. In older torch only its server without libuv takes a socket."""
    named["master_listen_fd"] = listener
    without = {**named, "use_libuv": False}
    if _torch_version() < _LIBUV_TAKES_SOCKETS:
        return make(*given, **without)
    try:
        return make(*given, **named)
    except NotImplementedError:
        return make(*given, **without)


def _torch_version() -> tuple[int, ...]:
    """Its first two numbers: (2, 15)."""
    text = str(getattr(sys.modules.get("torch"), "__version__", ""))
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


class Rounds:
    """Gives each request for a store at one address its own keys: `rounds.keep(store, "h", 1, 2)`.

    All ranks of a group of that size make their requests in the same order.
    """

    def __init__(self, with_prefix: Callable[[str, Any], Any]) -> None:
        self._with_prefix = with_prefix
        self._counts: dict[tuple[str, int, int], int] = {}
        self._kept: list[Any] = []  # a server lives as long as its first store

    def keep(self, store: Any, host: str, port: int, world_size: int) -> Any:
        """`store` for the first request, and `store` with a prefix for a later one."""
        place = (host, port, world_size)
        count = self._counts.get(place, 0)
        self._counts[place] = count + 1
        if count == 0:
            self._kept.append(store)
            return store
        return self._with_prefix(f"again-{count}", store)


def be_patient() -> None:
    """Make torch's store wait in small steps, once torch is imported: `be_patient()`."""
    told = os.environ.get("PACELINE_STORE", "")
    words = told.split(" ")
    if len(words) == _PLACE_WORDS:
        # os.environ keeps the port that was asked for. Child processes, as of
        # torch.multiprocessing.spawn, have no wrapper, so their environment gets the store's own
        # port.
        os.putenv("MASTER_PORT", words[2])

    def install(module: ModuleType) -> None:
        original: Callable[..., Any] | None = getattr(module, _FUNCTION, None)
        if original is None:
            return

        prefix: Callable[[str, Any], Any] | None = getattr(module, "PrefixStore", None)
        if prefix is None:
            prefix = getattr(sys.modules.get("torch.distributed"), "PrefixStore", None)
        rounds = Rounds(prefix) if prefix is not None else None

        def create(
            hostname: str, port: int, rank: int, world_size: int, timeout: timedelta, *rest: Any,
            **named: Any,
        ) -> Any:
            hostname, port = place_of(hostname, port, told)
            if rank != 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True):
                wait_until_served(hostname, port, timeout.total_seconds())
            made = original(hostname, port, rank, world_size, timeout, *rest, **named)
            return made if rounds is None else rounds.keep(made, hostname, port, world_size)

        setattr(module, _FUNCTION, create)
        make_store: Callable[..., Any] | None = getattr(module, "TCPStore", None)
        if make_store is not None:
            vars(module)["TCPStore"] = on_loopback(make_store)

    when_imported(_MODULE, install)
