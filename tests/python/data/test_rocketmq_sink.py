"""Messages of RocketMQ become rows once, whatever fails. The consumer is a double."""

from __future__ import annotations

import types
from collections import Counter
from concurrent.futures import Future
from itertools import count
from typing import Any

import pyarrow
import pytest
from paceline.receiver.refusal import Refusal
from paceline.sinks import rocketmq as rocketmq_sink
from receivers import Served, read

from paceline.data import DataError, LeasedLoader

MESSAGES = 50


class Consumer:
    """A topic. What was taken and not acknowledged comes again when nothing else is left."""

    def __init__(self) -> None:
        self.waiting = list(range(MESSAGES))
        self.taken: set[int] = set()
        self.loses = count()

    def receive_async(self, most: int, hidden_seconds: int) -> Future[list[Any]]:
        if not self.waiting:
            self.waiting, self.taken = sorted(self.taken), set()
        some, self.waiting = self.waiting[:7], self.waiting[7:]
        self.taken |= set(some)
        call: Future[list[Any]] = Future()
        call.set_result([self.message(one) for one in some])
        return call

    def ack(self, message: Any) -> None:
        if next(self.loses) % 3 == 0:
            raise ConnectionError("the acknowledgement is lost")
        self.taken.discard(int(message.body))
        if int(message.body) in self.waiting:
            self.waiting.remove(int(message.body))

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.taken

    @staticmethod
    def message(number: int) -> Any:
        return types.SimpleNamespace(
            message_id=f"id{number}", body=str(number).encode(), tag=None, keys={"b", "a"},
            born_timestamp=7, corrupted=False)


def run_to_the_end(sink: Any, consumer: Consumer) -> None:
    topic = rocketmq_sink.Topic(consumer, sink, 0.01)
    for _ in range(200):
        if consumer.is_empty:
            return
        try:
            topic.bring()
        except (pyarrow.ArrowException, Refusal):
            continue
    raise AssertionError("messages are left")


def expect_each_once(served: Served) -> None:
    stream = served.stream(decode=lambda row: int(row["value"]))
    with LeasedLoader(stream, batch=64, wait=0.1) as loader:
        assert Counter(read(loader, MESSAGES)) == dict.fromkeys(range(MESSAGES), 1)
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
    run_to_the_end(sink, Consumer())
    expect_each_once(served)


def test_another_process_has_committed_the_same_messages(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, other = served.sink(), served.sink()
    commit, calls = sink.commit, count()

    def overtaken(epoch: str, receipts: Any, **options: Any) -> bool:
        if next(calls) == 0:  # between the look for known ids and the commit
            rows = rocketmq_sink._batch_of([Consumer.message(0), Consumer.message(1)])
            other.commit("x", [other.write("x", "0", "0", [rows])], ids=["id0", "id1"])
        return commit(epoch, receipts, **options)

    monkeypatch.setattr(sink, "commit", overtaken)
    run_to_the_end(sink, Consumer())
    expect_each_once(served)


def test_ids_are_known_after_the_receiver_was_started_again(served: Served) -> None:
    sink = served.sink()
    sink.commit("1", [sink.write("1", "0", "0", [pyarrow.record_batch({"click": [1]})])],
                ids=["a", "b"])
    served.end()
    again = Served(served.folder)
    try:
        assert again.sink().known(["c", "b", "a"]) == {"a", "b"}
        assert again.sink("other").known(["a"]) == set()
        with pytest.raises(Refusal, match="committed before") as refused:
            again.sink().commit("2", [], ids=["b", "c"])
        assert refused.value.code == "PL-E336"
        assert again.sink().known(["c"]) == set()
    finally:
        again.end()


def test_ids_that_cannot_be_are_refused(served: Served) -> None:
    for ids in ([""], ["x" * 257], [str(one) for one in range(10_001)], [7], "abc"):
        with pytest.raises(Refusal, match="body of the call"):
            served.sink().known(ids)  # type: ignore[arg-type]


def test_urls_that_name_no_topic_are_refused() -> None:
    for url in ("rocketmq://host:8081", "kafka://host:1/clicks", "rocketmq://u:p@host:1/clicks",
                "rocketmq://host:8081/a/b"):
        with pytest.raises(DataError, match="names no topic"):
            rocketmq_sink.connect(url, "paceline", None)
