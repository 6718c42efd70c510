"""Live streams in one process, whose ledger is its own: librdkafka's mock cluster, and files."""

from __future__ import annotations

import glob
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from live_broker import Broker, Given, Message, files, read, write
from paceline.sources.live import Records

from paceline.data import (
    ArgumentError,
    DataError,
    ElasticDataset,
    LeasedLoader,
    Stream,
    Then,
)


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


def test_an_interrupted_batch_is_handed_out_after_the_interruption(
    broker: tuple[Broker, str],
) -> None:
    cluster, topic = broker
    cluster.produce(range(100), topic)
    left = [30]

    def decode(value: bytes) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return int(value)

    with LeasedLoader(cluster.stream(topic, decode=decode), batch=50, wait=0.1) as loader:
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
        assert Counter(read(loader, 100)) == dict.fromkeys(range(100), 1)
        assert loader.refused == 0


def test_retention_that_overtakes_a_reader_leaves_a_gap(
    broker: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster, topic = broker
    cluster.produce(range(100), topic)
    with caplog.at_level(logging.WARNING), LeasedLoader(
            cluster.stream(topic), batch=10, wait=0.1) as loader:
        source = loader._source
        polled = source.poll

        def poll(most: int, seconds: float) -> list[Records]:
            """What a broker answers that has dropped the first five records of partition 1."""
            source.poll = polled
            source.close("1")
            source.open("1", 5)
            return [Records("1", 5, [], is_gap=True)]

        source.poll = poll
        assert sorted(read(loader, 95)) == sorted(set(range(100)) - {1, 5, 9, 13, 17})
    assert "partition 1: retention has eaten offsets 0 to 4" in caplog.text


def test_records_before_an_error_count(
    broker: tuple[Broker, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, topic = broker
    cluster.produce(range(4), topic)
    source: Any = cluster.stream(topic).open()
    source.open("0", 0)

    gone = confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
    given = [Message(0), Message(1), Message(0, gone), Message(2)]
    with monkeypatch.context() as patch:
        patch.setattr(source, "_consumer", Given([given]))
        assert source.poll(10, 1.0) == [Records("0", 0, [b"1"] * 3)]
        with pytest.raises(DataError, match="the topic is not there"):
            source.poll(10, 1.0)
    source.close()


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


def test_the_loader_of_torch_refuses_what_it_would_ignore(cluster: Broker) -> None:
    from paceline.torch import LeasedLoader as TorchLoader

    for name, fix in (("batch", "batch_size="), ("btach_size", "leave btach_size out"),
                      ("num_workers", "leave num_workers out"), ("epochs", "leave epochs out")):
        with pytest.raises(ArgumentError, match=f"has no argument {name}") as refused:
            TorchLoader(cluster.stream(), **{name: 2})
        assert fix in str(refused.value)


# ---- files ----


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


def test_a_later_run_reads_the_files_that_came_between(tmp_path: Path) -> None:
    """With start="latest", what was there when the first run began is left out, and no more."""
    write(tmp_path, "old.parquet", 0, 10)
    stream = files(tmp_path, start="latest")
    with LeasedLoader(stream, batch=5, wait=0.1, resume="checkpoint") as first:
        first._look()
        first.mark(1)
        state = first.state_dict()
    write(tmp_path, "new.parquet", 10, 10)
    with LeasedLoader(stream, batch=5, wait=0.1, resume="checkpoint") as second:
        second.load_state_dict(state)
        assert read(second, 10) == list(range(10, 20))
        write(tmp_path, "newer.parquet", 20, 5)
        assert read(second, 5) == list(range(20, 25))


def test_a_run_that_began_in_an_empty_folder_has_begun(tmp_path: Path) -> None:
    stream = files(tmp_path, start="latest")
    with LeasedLoader(stream, batch=5, wait=0.1, resume="checkpoint") as first:
        first._look()
        first.mark(1)
        state = first.state_dict()
    write(tmp_path, "new.parquet", 10, 10)
    with LeasedLoader(stream, batch=5, wait=0.1, resume="checkpoint") as second:
        second.load_state_dict(state)
        assert read(second, 10) == list(range(10, 20))


def test_a_file_of_sparks_log_that_vanishes_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "good.parquet", 0, 10)
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "0").write_text('v1\n{"path":"file:///x/good.parquet","action":"add"}\n')
    found = [str(log / "0"), str(log / "1")]  # Spark has removed the second one meanwhile
    listed = glob.glob
    monkeypatch.setattr(glob, "glob", lambda of: found if "_spark_metadata" in of else listed(of))
    with LeasedLoader(files(tmp_path), batch=10, wait=0.1) as loader:
        assert sorted(read(loader, 10)) == list(range(10))


def test_a_stream_without_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paceline.sources.growing.TELL_SECONDS", 0.0)
    source = files(tmp_path / "clikcs").open()
    with caplog.at_level(logging.WARNING):
        assert source.partitions() == []
        source._look_after = 0.0  # type: ignore[attr-defined]
        assert source.partitions() == []
    assert caplog.text.count("none is there yet, and there is no folder") == 1
    with pytest.raises(DataError, match="the stream's URL names no files"):
        Stream("files://clicks/*.parquet").open()


@pytest.mark.parametrize("options", [{"shuffle": True}, {"seed": 7}])
def test_a_stream_cannot_be_shuffled(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="in the order in which it was written"):
        LeasedLoader(Stream(f"files://{tmp_path}/*.parquet"), **options)


def test_secrets_that_cannot_be_read_are_an_error_in_four_parts(tmp_path: Path) -> None:
    url = f"files://{tmp_path}/*.parquet"
    with pytest.raises(DataError, match="No such file"):
        Stream(url, secrets=tmp_path / "nosuch").open()
    (tmp_path / "no.toml").write_text("what?")
    with pytest.raises(DataError, match="the stream's secrets cannot be read"):
        Stream(url, secrets=tmp_path / "no.toml").open()
