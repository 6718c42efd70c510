"""Files of parts: Arrow IPC files of 2,048 rows a batch, with a digest of what they hold."""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.ipc

from paceline.receiver.refusal import Refusal
from paceline.receiver.row_digest import ZERO, added, digest_of, must_be_possible

ROWS = 2048  # of a stored batch
BATCH_BYTES_MAX = 512 << 20
PART_BYTES_MAX = 64 << 30
PART_ROWS_MAX = 2**32
COLUMNS_MAX = 10_000


def plain(schema: Any) -> Any:
    """The schema without what does not count: nullability, metadata, dictionaries, extensions."""
    why = ""
    if len(schema) == 0 or len(schema) > COLUMNS_MAX:
        why = f"it has {len(schema)} columns, and 1 to {COLUMNS_MAX} are possible"
    elif len(set(schema.names)) < len(schema):
        why = "two columns have one name"
    if why:
        raise Refusal(
            what="the part's columns are not possible",
            where="its schema",
            why=why,
            fix="write the columns that the training needs, each under its own name",
        )
    found = pyarrow.schema([pyarrow.field(one.name, _plain_type(one.type)) for one in schema])
    for one in found:
        must_be_possible(one.type)
    return found


def _plain_type(kind: Any) -> Any:
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return kind.value_type if pyarrow.types.is_dictionary(kind) else kind


def _plain_column(column: Any) -> Any:
    if isinstance(column.type, pyarrow.BaseExtensionType):
        return _plain_column(column.storage)
    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column


def _check(batch: Any) -> None:
    """Arrow's reader trusts what a message says of its buffers. Nothing is read before this."""
    try:
        batch.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        raise Refusal(
            what="a batch is damaged",
            where="a message of the part",
            why=str(error).partition("\n")[0][:300],
            fix="write it with an Arrow library, and send the part again",
        ) from None


def shown(schema: Any) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in schema)


class PartFile:
    """Writes one part: `add` batches, then `finish`. Without `finish` nothing stays."""

    def __init__(self, path: str, schema: Any) -> None:
        self.path = path
        self.schema = plain(schema)
        self.rows = 0
        self._hidden = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
        self._file: Any = open(self._hidden, "wb")  # noqa: SIM115  closed by finish or discard
        self._writer: Any = pyarrow.ipc.new_file(self._file, self.schema)
        self._digest = ZERO
        self._rest: list[Any] = []
        self._rest_rows = self._rest_bytes = 0

    def add(self, batch: Any) -> None:
        if batch.num_rows == 0:
            return
        _check(batch)
        columns = [_plain_column(column) for column in batch.columns]
        batch = pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
        self._digest = added((self._digest, digest_of(batch)))
        self._rest.append(batch)
        self._rest_rows += batch.num_rows
        self._rest_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._rest_rows >= ROWS:
            self._write_whole()
        if self._rest_bytes > BATCH_BYTES_MAX:
            raise Refusal(
                what="the part's rows are too large",
                where=self.path,
                why=f"fewer than {ROWS} rows in a row have {self._rest_bytes} bytes, more than "
                f"{BATCH_BYTES_MAX}",
                fix="write references to large objects, and let decode= load them",
            )
        if self.rows > PART_ROWS_MAX or self._file.tell() > PART_BYTES_MAX:
            raise Refusal(
                what="the part is too large",
                where=self.path,
                why=f"it has {self.rows} rows and {self._file.tell()} bytes",
                fix="write more and smaller partitions",
            )

    def finish(self) -> tuple[int, str]:
        """The number of bytes and the digest. The file is durable under its name."""
        if self._rest_rows:
            self._write_table(0)
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.rename(self._hidden, self.path)
        sync_folder(os.path.dirname(self.path))
        return size, self._digest

    def discard(self) -> None:
        self._file.close()
        for path in (self._hidden, self.path):
            if os.path.exists(path):
                os.unlink(path)

    def _write_whole(self) -> None:
        self._write_table(self._rest_rows % ROWS)

    def _write_table(self, kept: int) -> None:
        """Write all rows but the last `kept`."""
        table = pyarrow.Table.from_batches(self._rest, schema=self.schema).combine_chunks()
        count = table.num_rows - kept
        for begin in range(0, count, ROWS):
            piece = table.slice(begin, min(ROWS, count - begin))
            [batch] = piece.combine_chunks().to_batches()
            self._writer.write_batch(batch)
        rest = table.slice(count)
        self._rest = [_copied(one) for one in rest.to_batches()]
        self._rest_rows, self._rest_bytes = rest.num_rows, sum(one.nbytes for one in self._rest)


def _copied(batch: Any) -> Any:
    """A batch that does not keep the memory of the larger one that it is a slice of."""
    return pyarrow.ipc.read_record_batch(batch.serialize(), batch.schema)


def read_from(path: str, row: int) -> Iterator[Any]:
    """The batches of a part's file from this row on."""
    with pyarrow.memory_map(path) as source:
        file = pyarrow.ipc.open_file(source)
        for number in range(row // ROWS, file.num_record_batches):
            batch = file.get_batch(number)
            batch = batch.slice(max(row - number * ROWS, 0))
            if batch.num_rows:
                yield batch


def sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
