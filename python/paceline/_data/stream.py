"""What a script says of a live stream: partitions of a topic, or files that become more.

    clicks = Stream("kafka://host:9092/clicks", decode=parse)
    for batch in LeasedLoader(clicks, batch=4096, wait=1.0):
        train(batch)

A worker holds the rest of a partition, and another worker goes on at the next record when it dies;
see `paceline._data.live`.
"""

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from paceline._base import arguments
from paceline.errors import ArgumentError
from paceline.sources.live import Source, Start, open_source, scheme_of
from paceline.sources.secrets import read_secrets

_WHERE = "LeasedLoader"


class Stream:
    """Records that become more: a topic of Kafka, Parquet files, or what a receiver has.

    clicks = Stream("kafka://host:9092/clicks", decode=json.loads, secrets="kafka.toml")
    clicks = Stream("files:///data/clicks/*.parquet")

    Args:
        url: `kafka://HOST:PORT[,HOST:PORT]/TOPIC`, `files:///FOLDER/*.parquet`, or
            `flight://HOST:PORT/STREAM` (see `paceline receive`).
        decode: makes a sample of a record: of a message's bytes, or of a row as a dict. None: the
            record is the sample. A record that it refuses (any exception) goes to the quarantine.
        decode_batch: makes a whole batch, in place of `decode` and of the loader's `collate`. It
            gets an Arrow RecordBatch: the columns of the rows, or, of Kafka, the column `value`. If
            it fails, the records that it refuses one by one go to the quarantine.
        start: where the first run begins: "earliest" (default), "latest", or a time (Kafka).
        secrets: a file of mode 0600 with settings of the client, in TOML: "sasl.password" = "…"
        name: of the data set in the job. None: the topic, or the folder.
    """

    @arguments.known("Stream")
    def __init__(
        self,
        url: str,
        *,
        decode: Callable[[Any], Any] | None = None,
        decode_batch: Callable[[Any], Any] | None = None,
        start: Start = "earliest",
        secrets: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.url = arguments.text("Stream", "url", url, bytes_max=2000)
        self.scheme = scheme_of(url)
        self.decode = arguments.callback("Stream", "decode", decode)
        self.decode_batch = arguments.callback("Stream", "decode_batch", decode_batch)
        if decode is not None and decode_batch is not None:
            raise ArgumentError(
                what="the stream has decode and decode_batch",
                where="Stream",
                why="decode makes a sample of a record, and decode_batch a batch of many records",
                fix="leave one of them out",
            )
        if not isinstance(start, datetime) and start not in ("earliest", "latest"):
            raise arguments.refuse(
                "Stream", "start", start, '"earliest", "latest" or a datetime', 'start="earliest"')
        self.start = start
        self._secrets = None if secrets is None else os.fspath(secrets)
        path = url.split("://", 1)[1].partition("/")[2].strip("/")
        self.of = path
        folder = os.path.dirname(path) if self.scheme == "files" else path
        self.name = os.path.basename(folder) or self.scheme if name is None else name
        arguments.text("Stream", "name", self.name, bytes_max=200)

    def open(self, *, is_first: bool = True) -> Source:
        """The source. `is_first`: no run of the stream has begun yet; else `start` has passed."""
        start = self.start if is_first else "earliest"
        return open_source(self.url, start=start, settings=self._settings())

    def _settings(self) -> dict[str, str]:
        return {} if self._secrets is None else read_secrets(self._secrets)


def refuse_options(options: dict[str, Any], names: tuple[str, ...]) -> None:
    """Raise ArgumentError for arguments of data sets of fixed size."""
    for name in (*names, "drop_last", "uneven"):
        if name in options:
            raise _of_no_stream(
                name, "a stream has no epochs and no equal shares; a lease is a whole partition")
    for name in ("shuffle", "seed", "sampler"):
        if name in options:
            raise _of_no_stream(
                name, "a partition of a stream is read in the order in which it was written")


def refuse_collate(stream: Stream, options: dict[str, Any]) -> None:
    """Raise ArgumentError if the batch would be made twice."""
    for name in ("collate", "collate_fn"):
        if stream.decode_batch is not None and options.get(name) is not None:
            raise _of_no_stream(name, "the stream's decode_batch makes the whole batch")


def refuse_reading(options: dict[str, Any], names: Iterable[str]) -> None:
    """Raise ArgumentError for arguments of a DataLoader."""
    for name in names:
        if name in options:
            raise _of_no_stream(
                name, "a stream is read in this process, without the workers of a DataLoader")


def _of_no_stream(name: str, why: str) -> ArgumentError:
    return ArgumentError(
        what=f"{_WHERE} has no argument {name} for a stream",
        where=_WHERE,
        why=why,
        fix=f"leave {name} out",
    )
