"""Live streams in one process, whose ledger is its own: librdkafka's mock cluster, and files."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow
import pyarrow.parquet
import pytest

from paceline.data import (
    ArgumentError,
    DataError,
    ElasticDataset,
    LeasedLoader,
    Stream,
    Then,
)

_numbers = count()


class Broker:
    """librdkafka's mock cluster, which lives as long as its producer. A topic has 4 partitions."""

    def __init__(self) -> None:
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self.producer.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def produce(self, values: Any, topic: str = "clicks") -> None:
        for value in values:
            self.producer.produce(topic, str(value).encode(), partition=value % 4)
        assert self.producer.flush(20) == 0

    def stream(self, topic: str = "clicks", **options: Any) -> Stream:
        options = {"decode": int, "name": f"clicks-{next(_numbers)}", **options}
        return Stream(f"kafka://{self.address}/{topic}", **options)


@pytest.fixture(scope="module")
def cluster() -> Broker:
    return Broker()


@pytest.fixture
def broker(cluster: Broker, request: pytest.FixtureRequest) -> Iterator[tuple[Broker, str]]:
    yield cluster, f"topic-{abs(hash(request.node.name))}"


def read(loader: Any, wanted: int) -> list[int]:
    """The samples of whole batches until there are `wanted`; each batch is acknowledged."""
    seen: list[int] = []
    for batch in loader:
        seen += batch
        if len(seen) >= wanted:
            loader.done()
            return seen
    raise AssertionError("a stream has no end")


def test_every_record_once_and_new_ones_as_they_come(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(1000), topic)
    with LeasedLoader(cluster.stream(topic), batch=64, wait=0.1) as loader:
        assert Counter(read(loader, 1000)) == dict.fromkeys(range(1000), 1)
        cluster.produce(range(1000, 1100), topic)
        assert sorted(read(loader, 100)) == list(range(1000, 1100))


def test_a_partition_is_read_in_its_order(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(400), topic)
    with LeasedLoader(cluster.stream(topic), batch=50, wait=0.1) as loader:
        seen = read(loader, 400)
    for partition in range(4):
        own = [one for one in seen if one % 4 == partition]
        assert own == sorted(own)


def test_a_batch_that_is_not_done_comes_again(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(100), topic)
    with LeasedLoader(cluster.stream(topic), batch=10, wait=0.1) as loader:
        first = next(iter(loader))
        assert next(iter(loader)) == first
        assert Counter(read(loader, 100)) == dict.fromkeys(range(100), 1)


def test_what_decode_refuses_is_in_quarantine_and_the_rest_goes_on(
    broker: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster, topic = broker
    cluster.produce(range(200), topic)

    def decode(value: bytes) -> int:
        if value == b"77":
            raise ValueError("this click has no user")
        return int(value)

    with caplog.at_level(logging.WARNING), LeasedLoader(
            cluster.stream(topic, decode=decode), batch=16, wait=0.1) as loader:
        seen: list[int] = read(loader, 199)
        refused = loader.refused
    assert sorted(seen) == [one for one in range(200) if one != 77]
    assert refused == 1
    assert "partition 1 offset 19: ValueError: this click has no user" in caplog.text


def test_too_many_refused_records_are_an_error(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(300), topic)
    with (
        LeasedLoader(cluster.stream(topic, decode=lambda _value: 1 // 0), batch=4) as loader,
        pytest.raises(DataError, match="decode refuses too many records"),
    ):
        next(iter(loader))


def test_a_rewind_reads_again_what_came_after_the_mark(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(200), topic)
    stream = cluster.stream(topic)
    with LeasedLoader(stream, batch=20, wait=0.1, resume="checkpoint") as loader:
        before = read(loader, 80)
        loader.mark(1)
        state = loader.state_dict()
        after = read(loader, 200 - len(before))
        loader.load_state_dict(state)
        again = read(loader, 200 - len(before))
    assert sorted(after) == sorted(again) == sorted(set(range(200)) - set(before))
    # Another process, whose ledger knows nothing of this stream.
    with LeasedLoader(stream, batch=20, wait=0.1, resume="checkpoint") as other:
        other.load_state_dict(state)
        assert sorted(read(other, 200 - len(before))) == sorted(after)


def test_the_latest_start_leaves_out_what_is_there(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(100), topic)
    with LeasedLoader(cluster.stream(topic, start="latest"), batch=10, wait=0.1) as loader:
        loader._look()  # finds the partitions
        cluster.produce(range(100, 140), topic)
        assert sorted(read(loader, 40)) == list(range(100, 140))


def test_a_topic_that_is_not_there_is_an_error(cluster: Broker) -> None:
    with (
        LeasedLoader(cluster.stream("no-such-topic"), batch=4) as loader,
        pytest.raises(DataError, match="the topic is not there"),
    ):
        next(iter(loader))


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("amqp://host/clicks", "is no stream"),
        ("kafka://me:secret@host/clicks", "a user name or a password"),
    ],
)
def test_urls_that_are_refused(url: str, what: str) -> None:
    with pytest.raises(ArgumentError, match=what):
        Stream(url)


def test_arguments_of_finite_data_are_refused(cluster: Broker) -> None:
    with pytest.raises(ArgumentError, match="no argument epochs for a stream"):
        LeasedLoader(cluster.stream(), epochs=2)


def test_secrets_that_others_can_read_are_refused(cluster: Broker, tmp_path: Path) -> None:
    secrets = tmp_path / "kafka.toml"
    secrets.write_text('"client.id" = "mine"\n')
    secrets.chmod(0o644)
    stream = cluster.stream("clicks", secrets=secrets)
    with LeasedLoader(stream, batch=4) as loader, pytest.raises(DataError, match="other users"):
        next(iter(loader))


# ---- history, then live ----


def test_history_comes_before_the_stream(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(1000, 1040), topic)
    data = Then(ElasticDataset(range(100), seed=7), cluster.stream(topic))
    with LeasedLoader(data, batch=10, wait=0.1, resume="checkpoint") as loader:
        seen = read(loader, 120)
        assert sorted(seen[:100]) == list(range(100))
        loader.mark(1)
        state = loader.state_dict()
        rest = read(loader, 140 - len(seen))
        assert sorted(seen[100:] + rest) == list(range(1000, 1040))
        loader.load_state_dict(state)
        assert sorted(read(loader, len(rest))) == sorted(rest)


def test_the_loader_of_torch_reads_streams_too(broker: tuple[Broker, str]) -> None:
    import torch
    from paceline.torch import LeasedLoader as TorchLoader

    cluster, topic = broker
    cluster.produce(range(1000, 1040), topic)
    data = Then(ElasticDataset(range(20), seed=7), cluster.stream(topic))
    with TorchLoader(data, batch_size=8, wait=0.1) as loader:
        seen: list[int] = []
        for batch in loader:
            assert isinstance(batch, torch.Tensor)
            seen += batch.tolist()
            if len(seen) == 60:
                break
    assert sorted(seen) == [*range(20), *range(1000, 1040)]


# ---- files ----


def write(folder: Path, name: str, first: int, rows: int, column: str = "click") -> None:
    table = pyarrow.table({column: list(range(first, first + rows))})
    hidden = folder / f".{name}"
    pyarrow.parquet.write_table(table, hidden, row_group_size=16)
    hidden.rename(folder / name)


def files(folder: Path, **options: Any) -> Stream:
    options = {"decode": lambda row: row["click"], "name": f"files-{next(_numbers)}", **options}
    return Stream(f"files://{folder}/*.parquet", **options)


def test_files_that_become_more(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"part-{number}.parquet", number * 100, 100)
    write(tmp_path, "_hidden.parquet", 9000, 10)
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with LeasedLoader(files(tmp_path), batch=32, wait=0.1) as loader:
        assert Counter(read(loader, 500)) == dict.fromkeys(range(500), 1)
        write(tmp_path, "part-5.parquet", 500, 70)
        assert sorted(read(loader, 70)) == list(range(500, 570))


def test_a_rewind_goes_on_in_the_middle_of_a_file(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"part-{number}.parquet", number * 50, 50)
    with LeasedLoader(files(tmp_path), batch=7, wait=0.1, resume="checkpoint") as loader:
        before = read(loader, 70)
        loader.mark(1)
        state = loader.state_dict()
        rest = sorted(set(range(150)) - set(before))
        assert sorted(read(loader, len(rest))) == rest
        loader.load_state_dict(state)
        assert sorted(read(loader, len(rest))) == rest


def test_another_schema_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", 0, 10)
    write(tmp_path, "b.parquet", 0, 10, column="view")
    with (
        LeasedLoader(files(tmp_path), batch=100, wait=0.1) as loader,
        pytest.raises(DataError, match="the schema of the stream has changed"),
    ):
        read(loader, 20)


def test_only_what_spark_has_committed_is_read(tmp_path: Path) -> None:
    write(tmp_path, "good.parquet", 0, 10)
    write(tmp_path, "torn-attempt.parquet", 100, 10)
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "0").write_text('v1\n{"path":"file:///x/good.parquet","action":"add"}\n')
    with LeasedLoader(files(tmp_path), batch=10, wait=0.1) as loader:
        assert sorted(read(loader, 10)) == list(range(10))
        assert loader._source.partitions() == [
            part for part in loader._source.partitions() if "good" in part.name]
