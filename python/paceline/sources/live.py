"""Live sources: partitions of records that become more. The port, and the list of sources.

    source = open_source("kafka://host:9092/clicks", start="earliest", settings={})
    for part in source.partitions():
        source.open(part.name, part.base)
    for run in source.poll(1000, seconds=0.2):
        print(run.partition, run.offset, len(run.values))

A source only reads. Which process reads which partition, and from which offset, is the ledger's
decision; see `paceline._data.live`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from paceline.errors import ArgumentError, DataError

Start = str | datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A partition: where the stream's first run begins, and its number of records.

    A partition whose base is its number of records is left out: the stream begins after it.
    """

    name: str
    base: int
    records: int = 0  # 0: it has no end


class Records(NamedTuple):
    """Records of one partition, of which each has the offset after the one before.

    A million records may come in a second, so what is done for each of them is done in C.
    """

    partition: str
    offset: int  # of the first one
    values: Any
    """A list, or an Arrow RecordBatch with a row for each record."""
    is_gap: bool = False
    """No record: those before `offset` that were not read do not exist any more."""
    refusal: str = ""
    """Why no sample may be made of them."""

    def part(self, begin: int, end: int) -> "Records":
        """The records at these places."""
        return self._replace(offset=self.offset + begin, values=self.values[begin:end])


def values_of(values: Any) -> list[Any]:
    """What `decode` gets of each record: `values_of(RecordBatch)` → a dict of each row."""
    return values if isinstance(values, list) else values.to_pylist()


def arrow_of(parts: list[Any]) -> Any:
    """What `decode_batch` gets: one RecordBatch of all these values, in their order.

    Values that are no rows are a column `value`: of type binary, or large_binary if they have more
    than 2 GiB.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            what="decode_batch cannot be called",
            where="Stream",
            why="the package pyarrow is not installed",
            fix="pip install 'paceline[kafka]'",
        ) from error
    if not isinstance(parts[0], list):
        if len(parts) == 1:
            return parts[0]
        [whole] = pyarrow.Table.from_batches(parts).combine_chunks().to_batches()
        return whole
    values = parts[0] if len(parts) == 1 else [value for part in parts for value in part]
    column = pyarrow.array(values, pyarrow.binary())
    if isinstance(column, pyarrow.ChunkedArray):  # a column of this type ends at 2 GiB
        column = pyarrow.array(values, pyarrow.large_binary())
    return pyarrow.RecordBatch.from_arrays([column], ["value"])


class Source(Protocol):
    """What a file of this folder implements. Errors that a user has to mend are DataErrors."""

    is_eager: bool
    """All partitions that this process may have are read at once. False: two at most, in turn."""

    def partitions(self) -> list[Part]:
        """All partitions that are there now. Empty while the source does not answer."""
        ...

    def open(self, name: str, offset: int) -> int:
        """Begin to read there. Returns the first offset that still exists, `offset` or a later one.
        """
        ...

    def poll(self, most: int, seconds: float) -> list[Records]:
        """Up to `most` records of the open partitions, in the order of their offsets in each."""
        ...

    def end(self, name: str) -> int | None:
        """The offset after the newest record. None: not known now."""
        ...

    def close(self, name: str | None = None) -> None:
        """Stop reading this partition. None: all of them, for good."""
        ...


# URL scheme → the module with `open_source(url, start, settings)`.
SOURCES = {"kafka": "kafka", "files": "growing", "flight": "flight", "flight+tls": "flight"}


def open_source(url: str, *, start: Start, settings: Mapping[str, str]) -> Source:
    module = importlib.import_module(f"paceline.sources.{SOURCES[scheme_of(url)]}")
    return module.open_source(url, start, settings)


def scheme_of(url: str) -> str:
    """The scheme; raises ArgumentError if no source has it, or if the URL has a password."""
    parts = urlsplit(url)
    if parts.scheme not in SOURCES:
        known = ", ".join(f"{one}://" for one in SOURCES)
        raise ArgumentError(
            what=f"{url!r} is no stream",
            where="Stream",
            why=f"the sources are {known}",
            fix="kafka://host:9092/topic, files:///folder/*.parquet, or flight://host:8815/stream",
        )
    if parts.username is not None or parts.password is not None:
        raise ArgumentError(
            what="the stream's URL has a user name or a password",
            where="Stream",
            why="a URL is shown in logs and on pages",
            fix='secrets="kafka.toml", a file of mode 0600 with the settings of the client',
        )
    return parts.scheme
