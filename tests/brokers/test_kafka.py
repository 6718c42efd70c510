"""Streams of a real Kafka: what the mock cluster lacks, and jobs over a broker that dies."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from job import Job, end_shared_starters
from kafka_broker import KafkaBroker
from test_live_streams import (
    SAVED_BY_ALL_OR_ONE,
    acknowledged,
    end,
    kill_one,
    start,
    until_done,
)

from paceline.data import DataError, LeasedLoader, Stream

_numbers = count()


class Topic:
    """A topic of the broker, and what the tests of jobs need of one."""

    def __init__(self, broker: KafkaBroker, partitions: int = 4) -> None:
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.address})
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.address, "log_level": 0})
        self.url = f"kafka://{broker.address}/clicks"
        self.make(partitions)

    def make(self, partitions: int) -> None:
        self._all(self.admin.create_topics([NewTopic("clicks", partitions, 1)]))

    def delete(self) -> None:
        self._all(self.admin.delete_topics(["clicks"]))

    def add_partitions(self, total: int) -> None:
        self._all(self.admin.create_partitions([NewPartitions("clicks", total)]))

    def eat(self, partition: int, below: int) -> None:
        """As retention does."""
        self._all(self.admin.delete_records(
            [confluent_kafka.TopicPartition("clicks", partition, below)]))

    def produce(self, values: range, partitions: int = 4) -> None:
        self.producer.list_topics("clicks", timeout=60)  # also partitions that were added
        for value in values:
            self.producer.produce("clicks", str(value).encode(), partition=value % partitions)
        assert self.producer.flush(120) == 0

    def stream(self) -> Stream:
        return Stream(self.url, decode=int, name=f"clicks-{next(_numbers)}")

    @staticmethod
    def _all(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(timeout=60)


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:
    return Topic(kafka)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    Job.made.clear()
    yield Job(tmp_path, "run")
    orphans = [found for found in [one.end() for one in Job.made] if found]
    end_shared_starters()
    assert not orphans


def read(loader: Any, wanted: int) -> list[int]:
    seen: list[int] = []
    for batch in loader:
        seen += batch
        if len(seen) >= wanted:
            loader.done()
            return seen
    raise AssertionError("a stream has no end")


def test_aborted_records_are_not_read_and_are_no_gap(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": topic.broker.address, "transactional.id": "etl"})
    producer.init_transactions(60)
    for first, is_good in ((0, True), (100, False), (200, True)):
        producer.begin_transaction()
        for value in range(first, first + 100):
            producer.produce("clicks", str(value).encode(), partition=value % 4)
        if is_good:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)
    with caplog.at_level(logging.WARNING), LeasedLoader(
            topic.stream(), batch=16, wait=0.2) as loader:
        seen = read(loader, 200)
    assert Counter(seen) == dict.fromkeys([*range(100), *range(200, 300)], 1)
    assert "gap" not in caplog.text


def test_what_retention_has_eaten_is_a_gap_that_is_told(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic.produce(range(400))
    stream = topic.stream()
    with LeasedLoader(stream, batch=10, wait=0.2, resume="checkpoint") as loader:
        before = read(loader, 100)
        loader.mark(1)
        state = loader.state_dict()
    for partition in range(4):
        topic.eat(partition, 90)
    eaten = {one for one in range(400) if one // 4 < 90 and one not in before}
    wanted = set(range(400)) - set(before) - eaten
    assert eaten
    with caplog.at_level(logging.WARNING), LeasedLoader(
            stream, batch=10, wait=0.2, resume="checkpoint") as loader:
        loader.load_state_dict(state)
        assert Counter(read(loader, len(wanted))) == dict.fromkeys(wanted, 1)
    assert "retention has eaten offsets" in caplog.text


def test_a_partition_that_is_added_is_read_from_its_beginning(topic: Topic) -> None:
    topic.produce(range(40))
    with LeasedLoader(topic.stream(), batch=8, wait=0.2) as loader:
        assert sorted(read(loader, 40)) == list(range(40))
        topic.add_partitions(5)
        time.sleep(1)
        topic.produce(range(40, 140), partitions=5)
        assert sorted(read(loader, 100)) == list(range(40, 140))


def test_a_topic_that_is_made_anew_is_an_error(topic: Topic) -> None:
    topic.produce(range(400))
    stream = topic.stream()
    with LeasedLoader(stream, batch=10, wait=0.2, resume="checkpoint") as loader:
        read(loader, 400)
        loader.mark(1)
        state = loader.state_dict()
    topic.delete()
    time.sleep(2)
    topic.make(4)
    topic.produce(range(8))
    with LeasedLoader(stream, batch=10, wait=0.2, resume="checkpoint") as loader:
        loader.load_state_dict(state)
        with pytest.raises(DataError, match="fewer records than were read"):
            next(iter(loader))


def test_a_broker_that_is_away_is_waited_for(topic: Topic) -> None:
    topic.produce(range(200))
    with LeasedLoader(topic.stream(), batch=10, wait=0.2) as loader:
        first = read(loader, 60)
        topic.broker.kill()
        time.sleep(5)
        topic.broker.start()
        assert Counter(first + read(loader, 200 - len(first))) == dict.fromkeys(range(200), 1)


@pytest.mark.parametrize("resume", ["acks", "checkpoint"])
def test_killed_workers_masters_and_brokers_leave_every_count_exact(
    job: Job, topic: Topic, resume: str
) -> None:
    chance = random.Random(3)
    topic.produce(range(800))
    more = ["--checkpoint", str(job.state / "checkpoints")] if resume == "checkpoint" else []
    start(job, topic, *more)
    for turn in range(3):
        until_done(job, 200 + turn * 400)
        if turn == 1:
            topic.broker.kill()
            time.sleep(2)
            topic.broker.start()
        kill_one(job, chance)
        topic.produce(range(800 + 400 * turn, 1200 + 400 * turn))
    if ranks := job.ranks():  # a world that is being formed may have no rank 0
        with suppress(ProcessLookupError):
            os.kill(ranks[min(ranks)]["pid"], signal.SIGKILL)
    until_done(job, 2000)
    assert end(job, topic) in SAVED_BY_ALL_OR_ONE, job.stderr
    if resume == "acks":
        counts = acknowledged(job)
        assert {counts[str(p), offset] for p in range(4) for offset in range(500)} == {1}
        return
    seen: Counter[int] = Counter()
    for path in job.state.glob("counts-*"):
        for line in path.read_text().splitlines():
            sample, number = line.split()
            seen[int(sample)] += int(number)
    assert {one: n for one, n in seen.items() if one < 10**6} == dict.fromkeys(range(2000), 1)
