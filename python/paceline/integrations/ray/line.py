"""The adapter's line to one master: `paceline place`, which speaks the master's protocol for it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Line:
    """Facts go out with `tell`; what the master says comes in by `heard`, on a thread of its own.

    Args:
        program: the path of `paceline`.
        credentials: the directory with the job's token, ca.pem and ca.key.
        master: its HOST:PORT.
        heard: called with each message, such as {"wish": {…}}.
    """

    def __init__(self, program: str, credentials: str, master: str,
                 heard: Callable[[dict[str, Any]], None]) -> None:
        self._heard = heard
        self._process = subprocess.Popen(
            [program, "place", "--credentials", credentials, "--address", master],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, message: dict[str, Any]) -> None:
        """Lost if the stream is broken: the caller tells all again when it is opened."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End the stream."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self._heard(json.loads(text))
