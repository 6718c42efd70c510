"""Messages of Pulsar become rows once, whatever fails. The client is a double."""

from __future__ import annotations

import sys
import types
from collections import Counter
from itertools import count
from typing import Any

import pyarrow
import pytest
from paceline.receiver.refusal import Refusal
from paceline.sinks import pulsar as pulsar_sink
from receivers import Served, read

from paceline.data import DataError, LeasedLoader

LOG = [(ledger, entry, place) for ledger in (3, 17) for entry in range(5)
       for place in ((-1,) if entry % 2 else range(4))]


class PulsarException(Exception): ...


class Timeout(PulsarException): ...


class Message:
    def __init__(self, number: int) -> None:
        self.number = number

    def message_id(self) -> Any:
        ledger, entry, place = LOG[self.number]
        return types.SimpleNamespace(
            ledger_id=lambda: ledger, entry_id=lambda: entry, batch_index=lambda: place)

    def data(self) -> bytes:
        return str(self.number).encode()

    def partition_key(self) -> str:
        return ""

    def publish_timestamp(self) -> int:
        return 7


class Consumer:
    """Begins at the broker's cursor. A batch is sent again whole, as brokers do."""

    cursor = 0

    def __init__(self) -> None:
        self.next = Consumer.cursor

    def seek(self, place: tuple[int, ...]) -> None:
        self.next = next(n for n, one in enumerate(LOG) if one[:2] == place[1:3])

    def receive(self, timeout_millis: int) -> Message:
        if self.next == len(LOG):
            raise Timeout
        self.next += 1
        return Message(self.next - 1)

    def acknowledge_cumulative(self, message: Message) -> None:
        Consumer.cursor = message.number

    def close(self) -> None: ...


class Ended(Exception): ...


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    Consumer.cursor = 0
    double = types.SimpleNamespace(
        PulsarException=PulsarException, Timeout=Timeout, MessageId=lambda *place: place,
        ConsumerType=types.SimpleNamespace(Exclusive=0),
        InitialPosition=types.SimpleNamespace(Earliest=0))
    monkeypatch.setitem(sys.modules, "pulsar", double)
    monkeypatch.setattr(pulsar_sink, "MESSAGES_MAX", 3)
    monkeypatch.setattr(pulsar_sink, "_PAUSE_SECONDS", 0.0)


def partition(sink: Any) -> pulsar_sink.Partition:
    client = types.SimpleNamespace(subscribe=lambda *_, **__: Consumer())
    return pulsar_sink.Partition(client, "clicks", "paceline", sink, 0.01)


def run_to_the_end(sink: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all messages are committed and acknowledged."""
    receive = Consumer.receive

    def ending(self: Consumer, timeout_millis: int) -> Message:
        if self.next == len(LOG) and Consumer.cursor == len(LOG) - 1:
            raise Ended
        return receive(self, timeout_millis)

    monkeypatch.setattr(Consumer, "receive", ending)
    with pytest.raises(Ended):
        partition(sink).run()


def expect_each_once(served: Served) -> None:
    stream = served.stream(decode=lambda row: int(row["value"]))
    with LeasedLoader(stream, batch=64, wait=0.1) as loader:
        assert Counter(read(loader, len(LOG))) == dict.fromkeys(range(len(LOG)), 1)
        assert list(loader.soon(0.3)) == []


def test_commits_that_fail_before_and_after_leave_each_message_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = served.sink()
    commit, calls = sink.commit, count()

    def failing(*words: Any, **options: Any) -> bool:
        turn = next(calls) % 3
        if turn == 0:
            raise pyarrow.ArrowException("the receiver is away")
        found = commit(*words, **options)
        if turn == 1:
            raise pyarrow.ArrowException("the answer is lost")
        return found

    monkeypatch.setattr(sink, "commit", failing)
    run_to_the_end(sink, monkeypatch)
    expect_each_once(served)


def test_a_process_that_was_overtaken_goes_on_at_the_newest_epoch(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, other = served.sink(), served.sink()
    commit, calls = sink.commit, count()

    def overtaken(*words: Any, **options: Any) -> bool:
        if next(calls) == 0:  # the other one has read the same messages, and one less
            rows = pulsar_sink._batch_of([Message(0), Message(1)])
            other.commit("3.0.1", [other.write("3.0.1", "0", "0", [rows])], after="")
        return commit(*words, **options)

    monkeypatch.setattr(sink, "commit", overtaken)
    run_to_the_end(sink, monkeypatch)
    expect_each_once(served)


def test_what_the_receiver_refuses_ends_it(served: Served) -> None:
    other = served.sink()
    other.commit("1", [other.write("1", "0", "0", [pyarrow.record_batch({"click": [1]})])])
    with pytest.raises(Refusal, match="columns of the stream have changed"):
        partition(served.sink("pulsar")).run()


def test_urls_that_name_no_topic_are_refused() -> None:
    for url in ("pulsar://host:6650", "kafka://host:1/clicks", "pulsar://u:p@host:1/clicks",
                "pulsar://host:6650/a/b"):
        with pytest.raises(DataError, match="names no topic"):
            pulsar_sink.connect(url, None)
