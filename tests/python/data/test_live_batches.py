"""Batches of a live stream that are decoded at once, and what a poll of Kafka makes of messages."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow
import pytest
from live_broker import Broker, Given, Message, files, read, write
from paceline.sources.live import Records

from paceline.data import (
    ArgumentError,
    DataError,
    ElasticDataset,
    LeasedLoader,
    Then,
)

# ---- batches that are decoded at once ----


def numbers_of(raw: pyarrow.RecordBatch) -> list[int]:
    assert raw.schema.names == ["value"]
    return [int(value) for value in raw.column("value").to_pylist()]


def test_a_batch_is_decoded_at_once(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(1000), topic)
    sizes: list[int] = []

    def decode(raw: pyarrow.RecordBatch) -> list[int]:
        sizes.append(raw.num_rows)
        return numbers_of(raw)

    stream = cluster.stream(topic, decode=None, decode_batch=decode)
    with LeasedLoader(stream, batch=64, wait=0.1) as loader:
        assert Counter(read(loader, 1000)) == dict.fromkeys(range(1000), 1)
    assert sum(sizes) == 1000
    assert 1 < max(sizes) <= 64


def test_a_record_that_a_batch_cannot_have_is_in_quarantine_and_the_rest_goes_on(
    broker: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster, topic = broker
    cluster.produce(range(200), topic)
    bad = {77: 19, 81: 20, 150: 37}  # offsets

    def decode(raw: pyarrow.RecordBatch) -> list[int]:
        found = numbers_of(raw)
        for one in found:
            if one in bad:
                raise ValueError(f"the click {one} has no user")
        return found

    stream = cluster.stream(topic, decode=None, decode_batch=decode)
    with caplog.at_level(logging.WARNING), LeasedLoader(stream, batch=50, wait=0.1) as loader:
        seen = read(loader, 197)
        refused = loader.refused
    assert Counter(seen) == dict.fromkeys(set(range(200)) - bad.keys(), 1)
    assert refused == 3
    for number, offset in bad.items():
        assert (f"partition {number % 4} offset {offset}: "
                f"ValueError: the click {number} has no user" in caplog.text)


def test_a_batch_of_nothing_but_bad_records_counts_as_done(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(40), topic)

    def decode(raw: pyarrow.RecordBatch) -> list[int]:
        found = numbers_of(raw)
        if min(found) < 20:
            raise ValueError("too small")
        return found

    stream = cluster.stream(topic, decode=None, decode_batch=decode)
    with LeasedLoader(stream, batch=4, wait=0.1) as loader:
        assert sorted(read(loader, 20)) == list(range(20, 40))
        assert loader.refused == 20
        assert list(loader.soon(0.2)) == []


def test_too_many_records_that_a_batch_cannot_have_are_an_error(
    broker: tuple[Broker, str],
) -> None:
    cluster, topic = broker
    cluster.produce(range(300), topic)
    stream = cluster.stream(topic, decode=None, decode_batch=lambda _raw: 1 // 0)
    with (
        LeasedLoader(stream, batch=256, wait=0.5) as loader,
        pytest.raises(DataError, match="decode refuses too many records"),
    ):
        for _ in loader:
            pass


def test_a_batch_that_fails_without_a_bad_record_comes_again(broker: tuple[Broker, str]) -> None:
    cluster, topic = broker
    cluster.produce(range(100), topic)
    failures = [KeyboardInterrupt(), ValueError("records of two kinds")]

    def decode(raw: pyarrow.RecordBatch) -> list[int]:
        if failures and raw.num_rows > 1:
            raise failures.pop(0)
        return numbers_of(raw)

    stream = cluster.stream(topic, decode=None, decode_batch=decode)
    with LeasedLoader(stream, batch=50, wait=0.1) as loader:
        for failure in (KeyboardInterrupt, ValueError):
            with pytest.raises(failure):
                next(iter(loader))
        assert Counter(read(loader, 100)) == dict.fromkeys(range(100), 1)
        assert loader.refused == 0


def test_rows_of_files_come_as_columns(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"part-{number}.parquet", number * 50, 50)
    stream = files(
        tmp_path, decode=None, decode_batch=lambda raw: raw.column("click").to_pylist())
    with LeasedLoader(stream, batch=70, wait=0.1) as loader:
        assert Counter(read(loader, 150)) == dict.fromkeys(range(150), 1)


def test_the_loader_of_torch_hands_out_what_decode_batch_makes(broker: tuple[Broker, str]) -> None:
    import torch
    from paceline.torch import LeasedLoader as TorchLoader

    cluster, topic = broker
    cluster.produce(range(1000, 1040), topic)
    stream = cluster.stream(
        topic, decode=None, decode_batch=lambda raw: torch.tensor(numbers_of(raw)))
    with pytest.raises(ArgumentError, match="no argument collate_fn for a stream"):
        TorchLoader(stream, batch_size=8, collate_fn=list)
    data = Then(ElasticDataset(range(20), seed=7), stream)
    with TorchLoader(data, batch_size=8, wait=0.1, collate_fn=torch.tensor) as loader:
        seen: list[int] = []
        for batch in loader:
            assert isinstance(batch, torch.Tensor)
            seen += batch.tolist()
            if len(seen) == 60:
                break
    assert sorted(seen) == [*range(20), *range(1000, 1040)]


def test_a_stream_is_decoded_in_one_way(cluster: Broker) -> None:
    with pytest.raises(ArgumentError, match="decode and decode_batch"):
        cluster.stream(decode_batch=numbers_of)


# ---- records of a poll ----


def messages_of(values: list[tuple[int, int, bytes]]) -> list[Message]:
    return [Message(offset, partition=number, value=value) for number, offset, value in values]


@pytest.mark.parametrize("errors", [False, True])
def test_records_of_a_poll_are_runs_without_holes(
    broker: tuple[Broker, str], monkeypatch: pytest.MonkeyPatch, errors: bool
) -> None:
    cluster, topic = broker
    cluster.produce(range(4), topic)
    source: Any = cluster.stream(topic).open()
    for partition in ("0", "1", "2"):
        source.open(partition, 0)
    # A marker of a transaction at offset 2 of partition 0; a partition that is not open; a record
    # from before a seek, in a run whose ends are as far from each other as without it.
    given = messages_of([
        (0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c"), (0, 3, b"d"), (0, 4, b"e"), (1, 1, b"f"),
        (3, 0, b"no"), (2, 0, b"g"), (2, 1, b"h"), (2, 1, b"no"), (2, 3, b"i"),
    ])
    if errors:
        timed_out = confluent_kafka.KafkaError(confluent_kafka.KafkaError._ALL_BROKERS_DOWN)
        given.insert(4, Message(0, timed_out))
    with monkeypatch.context() as patch:
        patch.setattr(source, "_consumer", Given([given]))
        found = source.poll(100, 1.0)
    assert found == [
        Records("0", 0, [b"a", b"b"]), Records("1", 0, [b"c"]), Records("0", 3, [b"d", b"e"]),
        Records("1", 1, [b"f"]), Records("2", 0, [b"g", b"h"]), Records("2", 3, [b"i"])]
    source.close()


def test_a_record_of_more_than_16_mib_is_in_quarantine(
    broker: tuple[Broker, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, topic = broker
    cluster.produce(range(8), topic)
    monkeypatch.setattr("paceline.sources.kafka.RECORD_BYTES_MAX", 3)
    cluster.produce([1000], topic)
    cluster.produce(range(8, 16), topic)
    with caplog.at_level(logging.WARNING), LeasedLoader(
            cluster.stream(topic), batch=4, wait=0.1) as loader:
        assert sorted(read(loader, 16)) == list(range(16))
        assert loader.refused == 1
    assert "partition 0 offset 2: ValueError: the record has 4 bytes" in caplog.text


def test_messages_of_a_poll_that_was_interrupted_come_again(
    broker: tuple[Broker, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, topic = broker
    cluster.produce(range(400), topic)
    with LeasedLoader(cluster.stream(topic), batch=32, wait=0.1) as loader:
        first = read(loader, 32)
        real = loader._source._consumer

        class Interrupted:
            """The client has given the messages, and the process has not got them."""

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def consume(self, most: int, timeout: float) -> list[Any]:
                if real.consume(most, timeout=5.0):
                    monkeypatch.undo()
                    raise KeyboardInterrupt
                return []

        monkeypatch.setattr(loader._source, "_consumer", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            read(loader, 400)
        rest: list[int] = []
        while batches := list(loader.soon(1.0)):
            rest += batches[0]
    assert Counter(first + rest) == dict.fromkeys(range(400), 1)
