"""Hostile bytes on the starter's socket: every input is messages or a ProtocolError."""

import contextlib
import json
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from paceline._starter.wire import MESSAGE_BYTES_MAX, Connection, Message, ProtocolError, encode

SEEDS = 2_000

GOOD: dict[str, object] = {
    "type": "spawn",
    "id": 1,
    "entry": "script",
    "target": "train.py",
    "args": ["--lr", "1"],
    "env": {"A": "b"},
    "warm": True,
    "page": "/tmp/page",
    "slot": 0,
    "omp_threads": None,
}

READERS: list[Callable[[Message], object]] = [
    lambda message: message.text("target"),
    lambda message: message.text_or_none("target"),
    lambda message: message.texts("args"),
    lambda message: message.environment("env"),
    lambda message: message.integer("id"),
    lambda message: message.integer_or_none("omp_threads", high=4096),
    lambda message: message.flag("warm"),
]

ODD_VALUES: list[object] = [
    None, True, -1, 0, 2**63, 10**4000, 1e308, float("nan"), "", "\0", "\ud800", "é", [],
    ["\udc80"], [1], {}, {"": "x"}, {"A=B": "x"}, {"A": "\udfff"}, {"\ud800": "x"}, [[[]]],
]  # fmt: skip


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Connection(ours), theirs


def read(message: Message) -> None:
    for reader in READERS:
        with contextlib.suppress(ProtocolError):
            check_usable(reader(message))


def check_usable(value: object) -> None:
    """A text that passed can be a file name, an argument and a variable."""
    texts: list[object] = [value]
    if isinstance(value, list):
        texts = list(value)
    elif isinstance(value, dict):
        texts = [*value.keys(), *value.values()]
    for text in texts:
        if isinstance(text, str):
            assert b"\0" not in os.fsencode(text)


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: type(value).__name__)
def test_odd_values_are_read_or_refused(value: object) -> None:
    for name in GOOD:
        if name != "type":
            read(Message({**GOOD, name: value}))


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", "\0"])
def test_half_characters_are_refused(text: str) -> None:
    for fields in ({"target": text}, {"args": [text]}, {"env": {"A": text}}, {"env": {text: "b"}}):
        message = Message({**GOOD, **fields})
        name = next(iter(fields))
        with pytest.raises(ProtocolError, match=name):
            {"target": message.text, "args": message.texts, "env": message.environment}[name](name)


def mutated(random_source: random.Random, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(random_source.randint(1, 6)):
        at = random_source.randrange(len(result))
        match random_source.randrange(4):
            case 0:
                result[at] = random_source.randrange(256)
            case 1:
                del result[at : at + random_source.randint(1, 9)]
                result = result or bytearray(b"\0")
            case 2:
                result[at:at] = random_source.randbytes(random_source.randint(1, 9))
            case _:
                result[at:at] = random_source.choice(
                    [b'"', b"[", b"{", b"\\ud800", b"1e999", b"\0"]
                )
    return bytes(result)


def test_random_bytes_are_messages_or_an_error(pair: tuple[Connection, socket.socket]) -> None:
    ours, theirs = pair
    good = encode(GOOD)
    for seed in range(SEEDS):
        random_source = random.Random(seed)
        body = mutated(random_source, good[4:])
        # Half of them with a length that fits, so that the fields are reached.
        frame = struct.pack("<I", len(body)) + body
        data = frame if random_source.random() < 0.5 else mutated(random_source, good + frame)
        connection = Connection(ours.socket)
        theirs.sendall(data)
        try:
            messages = connection.receive()
        except ProtocolError:
            continue
        assert messages is not None, f"seed {seed}"
        for message in messages:
            read(message)


def test_messages_may_come_in_any_pieces(pair: tuple[Connection, socket.socket]) -> None:
    ours, theirs = pair
    data = encode(GOOD) * 3
    received: list[Message] = []
    for byte in data:
        theirs.sendall(bytes([byte]))
        received += ours.receive() or []
    assert [message.fields for message in received] == [json.loads(json.dumps(GOOD))] * 3


@pytest.mark.parametrize("length", [0, MESSAGE_BYTES_MAX + 1, 2**32 - 1])
def test_forbidden_lengths_are_refused(pair: tuple[Connection, socket.socket], length: int) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack("<I", length))
    with pytest.raises(ProtocolError):
        ours.receive()
