"""Sources over real files, also in workers: what is read is what was written, by its number."""

import io
import json
import sqlite3
import tarfile
from pathlib import Path

import pytest
from paceline.sources.lines import Lines
from paceline.sources.ranges import ByteRanges
from paceline.sources.table import TableRows
from paceline.sources.tar import TarSamples
from paceline.torch import ElasticLoader as TorchLoader

from paceline.data import DataError, ElasticDataset, ElasticLoader


def once(data, expected: list[object], workers: int) -> None:
    """All samples of an epoch, through worker processes too, are those that were written."""
    elastic = ElasticDataset(data, seed=7, block=16, window=3)
    key = str
    read = [x for batch in ElasticLoader(elastic, global_batch=10) for x in batch]
    assert sorted(read, key=key) == sorted(expected, key=key) and read != expected
    for context in ("fork", "spawn"):
        loader = TorchLoader(elastic, global_batch=10, num_workers=workers, collate_fn=list,
                             multiprocessing_context=context)
        assert [x for batch in loader for x in batch] == read


@pytest.mark.parametrize("end", ["\n", ""])
def test_lines(tmp_path: Path, end: str) -> None:
    texts = [f"line {i} " + "x" * (i * 37 % 400) for i in range(300)]
    texts[5], texts[150] = "", "long " * 50_000
    (tmp_path / "a").write_text("\n".join(texts[:200]) + end)
    (tmp_path / "b").write_text("\r\n".join(texts[200:]) + end)
    (tmp_path / "empty").write_text("")
    lines = Lines([tmp_path / name for name in ("a", "empty", "b")], decode=bytes.decode)
    assert [lines[i] for i in range(len(lines))] == texts
    with pytest.raises(IndexError):
        lines[300]
    once(lines, list(texts), workers=2)


def test_lines_that_vanish_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("".join(f"{i}\n" for i in range(100)))
    lines = Lines(path, decode=json.loads)
    state = ElasticLoader(ElasticDataset(lines), global_batch=5).state_dict()
    path.write_text("0\n")
    with pytest.raises(DataError, match="shorter than it was"):
        lines[90]
    with pytest.raises(DataError, match="the data changed"):
        ElasticLoader(ElasticDataset(Lines(path)), global_batch=1).load_state_dict(state)


def test_tar(tmp_path: Path) -> None:
    expected: list[object] = []
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as archive:
            for i in range(20):
                sample = {"__key__": f"d/{shard}-{i}", "txt": f"{i}".encode(), "b.bin": b"\0" * i}
                expected.append(sample)
                for ending in ("txt", "b.bin"):
                    member = tarfile.TarInfo(f"d/{shard}-{i}.{ending}")
                    member.size = len(sample[ending])
                    archive.addfile(member, io.BytesIO(sample[ending]))
    samples = TarSamples(sorted(tmp_path.glob("*.tar")))
    assert [samples[i] for i in range(len(samples))] == expected
    once(samples, expected, workers=1)
    (tmp_path / "no.tar").write_bytes(b"no tar" * 200)
    with pytest.raises(DataError, match="no tar file"):
        TarSamples(tmp_path / "no.tar")


def test_table(tmp_path: Path) -> None:
    path = tmp_path / "t %.db"
    with sqlite3.connect(path) as db:
        db.execute('CREATE TABLE "my table" (id INTEGER PRIMARY KEY, text TEXT)')
        rows = [(i * i - 50, f"row {i}") for i in range(700)]  # gaps, and keys below 0
        keys = dict(rows)
        db.executemany('INSERT INTO "my table" VALUES (?, ?)', keys.items())
    expected: list[object] = [{"id": key, "text": keys[key]} for key in sorted(keys)]
    table = TableRows(path, "my table", key="id")
    assert [table[i] for i in range(len(table))] == expected
    once(table, expected, workers=2)
    for wrong in ({"table": "none"}, {"table": "my table", "key": "text"}):
        with pytest.raises(DataError, match="cannot be listed"):
            TableRows(path, **wrong)
    with sqlite3.connect(path) as db:
        db.execute('DELETE FROM "my table" WHERE id = ?', (sorted(keys)[100],))
    with pytest.raises(DataError, match="the table changed"):
        table[101]


class Connect:
    """What any database of PEP 249 has, here SQLite's module; spawned workers can have it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, check_same_thread=False)


def test_a_table_of_any_database(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE events (id INTEGER, text TEXT, twice INTEGER)")
        rows = [(i * 3, f"row {i}", i // 2) for i in range(200)]
        db.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
    expected: list[object] = [{"id": i * 3, "text": f"row {i}"} for i in range(200)]
    table = TableRows(Connect(path), "main.events", key="id", columns=("id", "text"))
    assert [table[i] for i in range(len(table))] == expected
    once(table, expected, workers=1)
    assert table.fingerprint() == {"rows": 200, "keys": "0 … 597"}
    with pytest.raises(DataError, match="0 is there more than once"):
        TableRows(Connect(path), "events", key="twice")


@pytest.mark.parametrize("size", [1, 7, 100, 65_536, 1 << 20])
@pytest.mark.parametrize("border", [b"\n", b"\n\n", b""])
def test_byte_ranges(tmp_path: Path, size: int, border: bytes) -> None:
    count = 300 if size > 1 else 20
    records = [b"record %d " % i + b"x" * (i * 37 % 400) for i in range(count)]
    records[3] = b"long" * 50_000 if size > 7 else b""
    whole = b"".join(record + (border or b"|") for record in records)
    (tmp_path / "a").write_bytes(whole)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "b").write_bytes(whole + b"without an end")
    ranges = ByteRanges([tmp_path / name for name in ("a", "empty", "b")], size=size, border=border)
    parts = [ranges[i] for i in range(len(ranges))]
    assert b"".join(parts) == whole + whole + b"without an end"
    read = b""
    for part in parts[: -(-len(whole) // size)]:
        read += part
        assert read.endswith(border)
    if not border and size < len(whole):
        assert {len(part) for part in parts[: len(whole) // size]} == {size}


def test_byte_ranges_in_workers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("".join(f"line {i}\n" for i in range(500)))
    ranges = ByteRanges(path, size=64, decode=bytes.splitlines)
    once(ranges, [ranges[i] for i in range(len(ranges))], workers=2)


def test_ranges_of_a_file_that_got_shorter(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"line\n" * 1000)
    ranges = ByteRanges(path, size=100)
    path.write_bytes(b"line\n")
    for index in (0, 30):
        with pytest.raises(DataError, match="shorter than it was"):
            ranges[index]
    assert ByteRanges(path, size=100).fingerprint() != ranges.fingerprint()


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the rows of this test are pyarrow's")
    from paceline.sources.parquet import ParquetRows
    from pyarrow import parquet

    expected: list[object] = []
    for part, count in enumerate((50, 0, 33)):
        rows = [{"id": 100 * part + i, "words": ["a"] * (i % 3), "x": i / 7} for i in range(count)]
        expected += rows
        kinds = pyarrow.schema([("id", pyarrow.int64()), ("x", pyarrow.float64()),
                                ("words", pyarrow.list_(pyarrow.string()))])
        table = pyarrow.Table.from_pylist(rows, schema=kinds)
        parquet.write_table(table, tmp_path / f"{part}.parquet", row_group_size=16)
    files = sorted(tmp_path.glob("*.parquet"))
    data = ParquetRows(files, groups=2)
    assert [data[i] for i in range(len(data))] == expected
    once(data, expected, workers=1)
    only = ParquetRows(files, columns=["id"])
    assert only[50] == {"id": 200}
    with pytest.raises(DataError, match="no column y"):
        ParquetRows(files, columns=["id", "y"])
    (tmp_path / "no.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        ParquetRows(tmp_path / "no.parquet")
