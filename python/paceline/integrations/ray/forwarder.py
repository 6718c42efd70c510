"""A stable address of a master that moves: `Forwarder()`, one on each node.

On Kubernetes a Service does this. Launchers and agents connect to a port of their own loopback, and
their bytes are passed on to the present master. A connection that is open when the master moves
breaks with that master. TLS is between the ends, so nothing is read here.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_CONNECT_SECONDS = 3.0
_CHUNK = 1 << 16


class Forwarder:
    """Listens at `port` of 127.0.0.1 until the process ends."""

    def __init__(self, master: str) -> None:
        self._master = master
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def point_to(self, master: str) -> None:
        """From now on connections go to this HOST:PORT."""
        self._master = master

    def _serve(self) -> None:
        while True:
            caller, _ = self._listener.accept()
            threading.Thread(target=self._join, args=(caller,), daemon=True).start()

    def _join(self, caller: socket.socket) -> None:
        host, _, port = self._master.rpartition(":")
        try:
            master = socket.create_connection((host, int(port)), _CONNECT_SECONDS)
        except OSError:
            caller.close()
            return
        master.settimeout(None)
        for end in (caller, master):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pass_on, args=(master, caller), daemon=True)
        back.start()
        _pass_on(caller, master)
        back.join()
        caller.close()
        master.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    # Both ends: a caller that has gone must not leave the other direction waiting.
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
