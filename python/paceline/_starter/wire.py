"""Messages on the starter's socket; docs/formats/starter_socket.md is the specification."""

import json
import socket
import struct
from typing import cast

PROTOCOL = 1
MESSAGE_BYTES_MAX = 4 << 20
UNSENT_BYTES_MAX = 8 << 20
_LENGTH = struct.Struct("<I")
_UCRED = struct.Struct("3i")


class ProtocolError(Exception):
    """The peer violates the protocol. The text goes into an `error` message."""


class Message:
    """One received object with checked access: `message.text("job")`."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.fields = fields
        self.type = self.text("type")

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not _is_text(value):
            raise ProtocolError(f"field '{name}' is not a text")
        return cast("str", value)

    def text_or_none(self, name: str) -> str | None:
        return None if self.fields.get(name) is None else self.text(name)

    def integer(self, name: str, *, low: int = 0, high: int = 2**63 - 1) -> int:
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ProtocolError(f"field '{name}' is not a number from {low} to {high}")
        return value

    def integer_or_none(self, name: str, *, high: int) -> int | None:
        return None if self.fields.get(name) is None else self.integer(name, high=high)

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if not isinstance(value, bool):
            raise ProtocolError(f"field '{name}' is not true or false")
        return value

    def texts(self, name: str) -> list[str]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise ProtocolError(f"field '{name}' is not a list of texts")
        items = cast("list[object]", value)
        if not all(_is_text(item) for item in items):
            raise ProtocolError(f"field '{name}' is not a list of texts")
        return cast("list[str]", items)

    def environment(self, name: str) -> dict[str, str]:
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise ProtocolError(f"field '{name}' is not an environment")
        items = cast("dict[str, object]", value)
        for key, word in items.items():
            if not key or "=" in key or not _is_text(key) or not _is_text(word):
                raise ProtocolError(f"field '{name}' has a variable that cannot be set")
        return cast("dict[str, str]", items)


class Connection:
    """One agent: a non-blocking socket with its two buffers."""

    def __init__(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self.socket = peer
        self.job = ""
        self.node = ""
        self._received = bytearray()
        self._unsent = bytearray()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def peer_uid(self) -> int:
        raw = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(raw)[1])

    def receive(self) -> list[Message] | None:
        """The messages that are complete by now; None if the peer is gone."""
        try:
            chunk = self.socket.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        if not chunk:
            return None
        self._received += chunk
        messages: list[Message] = []
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if not 0 < length <= MESSAGE_BYTES_MAX:
                raise ProtocolError(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if len(self._received) < end:
                break
            messages.append(_parse(bytes(self._received[_LENGTH.size : end])))
            del self._received[:end]
        return messages

    def send(self, kind: str, **fields: object) -> bool:
        """Queue a message and send what the socket takes; False if the peer is lost."""
        self._unsent += encode({"type": kind, **fields})
        return self.flush() and len(self._unsent) <= UNSENT_BYTES_MAX

    def flush(self) -> bool:
        """Send what the socket takes; False if the peer is lost."""
        try:
            while self._unsent:
                sent = self.socket.send(self._unsent)
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return False
        return True


def _is_text(value: object) -> bool:
    """Whether it can be a file name, argument or variable. JSON text may have lone surrogates."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode(fields: dict[str, object]) -> bytes:
    """A message in its form on the socket: `encode({"type": "list"})`."""
    body = json.dumps(fields).encode()
    return _LENGTH.pack(len(body)) + body


def _parse(body: bytes) -> Message:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message that is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("a message that is not an object")
    return Message(cast("dict[str, object]", value))
