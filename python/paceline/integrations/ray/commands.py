"""Commands of `paceline` on an actor's host, whose output a caller elsewhere reads as it comes.

A caller asks for the output piece by piece. One that has gone asks no more, and its command is
then interrupted, as by Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

# A caller that asked for nothing for so long has gone.
_CALLER_SECONDS = 15.0
_LOOK_SECONDS = 1.0
# Between an interruption and SIGKILL.
_GRACE_SECONDS = 5.0
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Piece:
    """What a command wrote since the piece before."""

    out: bytes
    err: bytes
    exit_code: int | None
    """None: the command runs."""


class Command:
    """One running command."""

    def __init__(self, line: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=os.environ | environment, start_new_session=True)
        self._written = {"out": bytearray(), "err": bytearray()}
        self._exit_code: int | None = None
        self._changed = threading.Condition()
        self._asked = time.monotonic()
        assert self._process.stdout is not None and self._process.stderr is not None
        readers = [threading.Thread(target=self._read, args=(name, stream), daemon=True)
                   for name, stream in (("out", self._process.stdout),
                                        ("err", self._process.stderr))]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._watch, args=(readers,), daemon=True).start()

    def _read(self, name: str, stream: IO[bytes]) -> None:
        while data := os.read(stream.fileno(), _CHUNK):
            with self._changed:
                self._written[name] += data
                self._changed.notify_all()

    def _watch(self, readers: list[threading.Thread]) -> None:
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_LOOK_SECONDS)
                break
            if time.monotonic() - self._asked > _CALLER_SECONDS:
                self.interrupt()
                time.sleep(_GRACE_SECONDS)
                self._process.kill()
        for reader in readers:
            reader.join(_GRACE_SECONDS)  # a child of the command may hold the pipe
        with self._changed:
            self._exit_code = code if code >= 0 else 128 - code
            self._changed.notify_all()

    def read(self, patience: float) -> Piece:
        """Return the whole lines that are there, or come within `patience` seconds.

        Lines are whole so that those of several hosts can be shown in turn.
        """
        until = time.monotonic() + patience
        with self._changed:
            while True:
                self._asked = time.monotonic()
                out, err = (self._take(name) for name in ("out", "err"))
                left = until - time.monotonic()
                if out or err or self._exit_code is not None or left <= 0:
                    return Piece(out, err, self._exit_code)
                self._changed.wait(left)

    def _take(self, name: str) -> bytes:
        written = self._written[name]
        end = len(written) if self._exit_code is not None else written.rfind(b"\n") + 1
        taken = bytes(written[:end])
        del written[:end]
        return taken

    def interrupt(self) -> None:
        """As Ctrl-C."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)


class Commands:
    """The commands of one host, by number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._running: dict[int, Command] = {}

    def begin(self, line: list[str], environment: dict[str, str]) -> int:
        """Start a command, and return its number."""
        started = Command(line, environment)
        with self._lock:
            self._number += 1
            self._running[self._number] = started
            return self._number

    def read(self, number: int, patience: float) -> Piece:
        """The next piece of that command; with an exit code, it is the last one.

        Raises:
            KeyError: the last piece was read already.
        """
        piece = self._running[number].read(patience)
        if piece.exit_code is not None:
            with self._lock:
                self._running.pop(number, None)
        return piece

    def interrupt(self, number: int) -> None:
        """End it as by Ctrl-C, if it runs."""
        with self._lock:
            running = self._running.get(number)
        if running is not None:
            running.interrupt()
