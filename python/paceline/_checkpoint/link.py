"""A rank's socket to its checkpoint keeper; docs/formats/checkpoint_socket.md."""

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from paceline._base.wording import say
from paceline._rank import progress
from paceline._state.save_plan import Place
from paceline.errors import CheckpointError

LINE_BYTES_MAX = 64 << 20
_CONNECT_SECONDS = 60.0
_PAUSE_SECONDS = 0.02
_AGAIN_SECONDS = 1.0
_POLL_SECONDS_MAX = 86_400.0  # poll(2) takes milliseconds in 31 bits
_GOODBYE_SECONDS = 30.0

Fields = dict[str, object]


@dataclass(frozen=True)
class Keeper:
    """The keeper of a rank's checkpoints, and what the rank sends it."""

    place: Place  # of the rank
    socket: str
    words: Fields  # fields to send with `open`
    revive: Callable[[], None] | None = None  # starts a new keeper if this one is gone


class _LateError(Exception):
    """The answer did not come in time."""


class Link:
    """One connection that reconnects to a new keeper: `link.request({"op": "restore"}, …)`.

    If the keeper refuses a message, that raises a CheckpointError with `where` as its place, unless
    the keeper names another place. `hello` is the first message of every connection; its answer is
    `opened`. `revive` starts a keeper if none answers. Without `revive` the rank waits for one that
    its agent starts.
    """

    def __init__(
        self,
        path: str,
        hello: Fields,
        where: str,
        opened: str = "opened",
        revive: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._where = where
        self._revive = revive
        self._hello = hello
        self._answer = opened  # the kind of the answer to `hello`
        self._socket: socket.socket | None = None
        self._unread = b""
        self._tried_at = 0.0
        self.opened: Fields = {}
        self._connect_patiently()

    @classmethod
    def ask(cls, path: str, question: Fields, answer: str, where: str) -> Fields:
        """Connect, send one question, and return its answer of the kind `answer`."""
        link = cls(path, question, where, opened=answer)
        link.close()
        return link.opened

    def request(self, message: Fields, answer: str, timeout: float | None = None) -> Fields:
        """Send `message` and return the answer of that kind; sends it again if the keeper restarts.

        `timeout` in seconds. After it this raises TimeoutError and withdraws the message.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                if self._socket is None:
                    self._connect_patiently()
                self._send(message)
                return self._receive(answer, deadline)
            except _LateError:
                self._withdraw(message)
                what = f"{answer!r} of step {message.get('step')}"
                raise TimeoutError(f"{what} was not reached within {timeout} s") from None
            except OSError:
                self._close()

    def tell(self, message: Fields) -> None:
        """Send `message` if that does not block. A restarted keeper finds out by itself."""
        try:
            if self._socket is None:
                if time.monotonic() < self._tried_at + _AGAIN_SECONDS:
                    return
                self._connect()
            self._send(message)
        except (OSError, CheckpointError):
            self._close()

    def reopen(self, hello: Fields) -> None:
        """Send another `hello` on the same connection."""
        self._hello = hello
        self.opened = self.request(hello, "opened")

    def close(self) -> None:
        """Tell the keeper that this rank closes, and wait for its answer.

        Before it answers, the keeper removes what is left of earlier commits, and releases the
        claim on the directory. It answers within seconds, even if storage hangs.
        """
        if self._socket is not None:
            with contextlib.suppress(OSError, CheckpointError, _LateError):
                self._send({"op": "close"})
                self._receive("closed", time.monotonic() + _GOODBYE_SECONDS)
        self._close()

    def _connect_patiently(self) -> None:
        deadline = time.monotonic() + _CONNECT_SECONDS
        revived_at = -_AGAIN_SECONDS
        while True:
            try:
                self._connect()
                return
            except OSError as error:
                self._close()
                if time.monotonic() > deadline:
                    raise CheckpointError(
                        what="the process that manages this rank's checkpoints does not answer",
                        where=self._where,
                        why=f"{self._path}: {error}",
                        fix="see logs/NODE/agent.log of the run directory; without paceline run, "
                        "the log beside the socket",
                    ) from error
            if self._revive is not None and time.monotonic() > revived_at + _AGAIN_SECONDS:
                revived_at = time.monotonic()
                self._revive()
            time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> None:
        self._tried_at = time.monotonic()
        self._unread = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(self._path)
        self._send(self._hello)
        self.opened = self._receive(self._answer)

    def _send(self, message: Fields) -> None:
        assert self._socket is not None
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _withdraw(self, message: Fields) -> None:
        """Withdraw `message`, and discard answers that still arrive for it."""
        try:
            self._send({**message, "op": "withdraw"})
            while True:
                try:
                    self._receive("withdrawn")
                    return
                except CheckpointError:  # the refusal of the withdrawn message
                    continue
        except OSError:
            self._close()

    def _receive(self, answer: str, deadline: float | None = None) -> Fields:
        while True:
            fields = self._line(deadline)
            if fields.get("op") == "error":
                four = {key: str(fields.get(key, "")) for key in ("what", "where", "why", "fix")}
                four["where"] = four["where"] or self._where
                raise CheckpointError(**four, is_final=fields.get("final") is True)
            if fields.get("op") == "notice":
                say(str(fields.get("text")))
            if fields.get("op") == answer:
                return fields

    def _line(self, deadline: float | None) -> Fields:
        assert self._socket is not None
        while b"\n" not in self._unread:
            if deadline is not None:
                readable = select.poll()
                readable.register(self._socket, select.POLLIN)
                left = max(0.0, deadline - time.monotonic())
                if not readable.poll(1000 * min(left, _POLL_SECONDS_MAX)):
                    if left > _POLL_SECONDS_MAX:
                        continue
                    raise _LateError
            received = self._socket.recv(1 << 16)
            if not received or len(self._unread) > LINE_BYTES_MAX:
                raise ConnectionError("the keeper has gone")
            self._unread += received
        line, self._unread = self._unread.split(b"\n", 1)
        fields: object = json.loads(line)
        if not isinstance(fields, dict):
            raise ConnectionError("the keeper does not speak JSON objects")
        return cast("Fields", fields)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def find_keeper(directory: str, terms: Fields) -> Keeper:
    """The keeper of this rank's checkpoints: its node's, or a private one that is started."""
    path = os.environ.get("PACELINE_CHECKPOINT_SOCKET", "")
    if path:
        place = Place(progress.rank(), progress.world_size(), progress.generation())
        return Keeper(place, path, {})
    from paceline._checkpoint.private_keeper import start

    return start(directory, terms)
