"""What tests of live streams share: a broker in this process, its messages, and Parquet files."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow
import pyarrow.parquet

from paceline.data import Stream

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


def read(loader: Any, wanted: int) -> list[int]:
    """The samples of whole batches until there are `wanted`; each batch is acknowledged."""
    seen: list[int] = []
    for batch in loader:
        seen += batch
        if len(seen) >= wanted:
            loader.done()
            return seen
    raise AssertionError("a stream has no end")


class Message:
    """Of a consumer: a record or an error."""

    def __init__(
        self, offset: int, error: object = None, *, partition: int = 0, value: bytes = b"1"
    ) -> None:
        self._offset, self._partition = offset, partition
        self._error, self._value = error, value

    def error(self) -> object:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value

    def __len__(self) -> int:
        return len(self._value)


class Given:
    """A consumer that gives these messages, a list a call."""

    def __init__(self, messages: list[list[Message]]) -> None:
        self._messages = messages

    def consume(self, most: int, timeout: float) -> list[Message]:
        return self._messages.pop(0) if self._messages else []


def write(folder: Path, name: str, first: int, rows: int, column: str = "click") -> None:
    table = pyarrow.table({column: list(range(first, first + rows))})
    hidden = folder / f".{name}"
    pyarrow.parquet.write_table(table, hidden, row_group_size=16)
    hidden.rename(folder / name)


def files(folder: Path, **options: Any) -> Stream:
    options = {"decode": lambda row: row["click"], "name": f"files-{next(_numbers)}", **options}
    return Stream(f"files://{folder}/*.parquet", **options)
