"""`paceline tables export -o FILE.parquet` runs this: an exported safetensors file as Parquet.

    python -m paceline._tables.parquet SOURCE TARGET

The columns are `key` (int64) and `row` (a list of dim float32 values). A row group has up to
2^18 rows, so that readers can take the table in pieces. The target appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

ROWS_OF_GROUP = 1 << 18


def tensors(source: Path) -> tuple[Any, Any]:
    """`keys` and `rows` of the file, which stays on the disk."""
    with source.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))

    def tensor(name: str, dtype: str) -> Any:
        told = header[name]
        count = int(np.prod(told["shape"]))
        if count == 0:  # nothing can be mapped
            return np.zeros(told["shape"], dtype)
        at = 8 + size + told["data_offsets"][0]
        return np.memmap(source, dtype, mode="r", offset=at, shape=tuple(told["shape"]))

    return tensor("keys", "<i8"), tensor("rows", "<f4")


def convert(source: Path, target: Path) -> None:
    keys, rows = tensors(source)
    dim = rows.shape[1]
    schema = pa.schema([("key", pa.int64()), ("row", pa.list_(pa.float32(), dim))])
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with pyarrow.parquet.ParquetWriter(part, schema, compression="zstd") as writer:
            for begin in range(0, len(keys), ROWS_OF_GROUP):
                group = slice(begin, begin + ROWS_OF_GROUP)
                values = pa.array(np.ascontiguousarray(rows[group]).reshape(-1))
                writer.write_table(pa.table(
                    [pa.array(np.ascontiguousarray(keys[group])),
                     pa.FixedSizeListArray.from_arrays(values, dim)], schema=schema))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
