"""Spark writes into a training job, from a stream or once (Spark 4.1 and newer).

    from paceline.sinks.spark import PacelineSource

    spark.dataSource.register(PacelineSource)
    stream.writeStream.format("paceline").options(
        url="grpc://host:8815/clicks", app="etl", secrets="token.toml",
        checkpointLocation="checkpoints").start()
    table.write.format("paceline").mode("append").options(..., epoch="monday").save()

An epoch is Spark's batch. Spark repeats the last batch of a query that died, and the receiver keeps
one copy. A query with a new checkpointLocation counts its batches from 0, so it needs a new `app`.
"""

# pyright: reportMissingImports=false
# Spark is in no environment of the checks; tests/sinks runs this file in one that has it.

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from paceline.errors import ArgumentError
from paceline.sinks.writer import Receipt, Sink

_BATCH = "streaming.sql.batchId"  # where Spark tells a task the number of its batch


@dataclass
class _Written(WriterCommitMessage):
    receipt: Receipt


class PacelineSource(DataSource):
    """The format "paceline". Options: url, app, secrets, and epoch if it is no stream."""

    @classmethod
    def name(cls) -> str:
        return "paceline"

    def writer(self, schema: Any, overwrite: bool) -> "_Writer":
        if overwrite:
            raise ArgumentError(
                what="a stream is not overwritten",
                where='the format "paceline"',
                why='the mode is "overwrite"',
                fix='.mode("append"), with epoch="…"',
            )
        return _Writer(self._sink(), _option(self.options, "epoch"))

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: Any, overwrite: bool
    ) -> "_StreamWriter":
        return _StreamWriter(self._sink())

    def _sink(self) -> Sink:
        return Sink(_option(self.options, "url"), app=_option(self.options, "app"),
                    secrets=self.options.get("secrets"))


class _Writer(DataSourceArrowWriter):
    def __init__(self, sink: Sink, epoch: str) -> None:
        self._sink = sink
        self._epoch = epoch

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _written(self._sink, self._epoch, iterator)

    def commit(self, messages: list[Any]) -> None:
        self._sink.commit(self._epoch, _receipts(messages))

    def abort(self, messages: list[Any]) -> None:
        self._sink.abort(self._epoch)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        epoch = context.getLocalProperty(_BATCH) if context is not None else None
        if epoch is None:
            raise RuntimeError(f"Spark does not say which batch this is: {_BATCH} is not set")
        return _written(self._sink, epoch, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  Spark's name
        self._sink.commit(str(batchId), _receipts(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._sink.abort(str(batchId))


def _written(sink: Sink, epoch: str, batches: Iterator[Any]) -> WriterCommitMessage:
    context = TaskContext.get()
    assert context is not None
    # Not taskAttemptId: it begins again with each driver, and tasks of a dead driver may still run.
    return _Written(sink.write(epoch, str(context.partitionId()), uuid.uuid4().hex, batches))


def _receipts(messages: list[Any]) -> list[Receipt]:
    return [one.receipt for one in messages if one is not None]


def _option(options: dict[str, str], name: str) -> str:
    value = options.get(name)
    if value is None:
        raise ArgumentError(
            what=f"the option {name} is missing",
            where='the format "paceline"',
            why="it needs url and app, and epoch if it is no stream",
            fix=f'.option("{name}", "…")',
        )
    return value
