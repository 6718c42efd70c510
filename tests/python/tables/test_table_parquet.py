"""An exported table as Parquet, in groups of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from paceline._tables import parquet
from safetensors.numpy import save_file


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20])
def test_each_row_keeps_its_key_whatever_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(parquet, "ROWS_OF_GROUP", 8)
    keys = np.arange(count, dtype=np.int64) * -3
    rows = np.arange(count * 4, dtype=np.float32).reshape(count, 4) / 7
    source, target = tmp_path / "ads.safetensors", tmp_path / "ads.parquet"
    save_file({"keys": keys, "rows": rows}, source)
    parquet.convert(source, target)
    read = pyarrow.parquet.ParquetFile(target)
    assert read.num_row_groups == -(-count // 8)
    table = read.read()
    assert np.array_equal(table["key"].to_numpy(), keys)
    assert table["row"].to_pylist() == rows.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ads.parquet", "ads.safetensors"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "ads.safetensors", tmp_path / "none" / "ads.parquet"
    save_file({"keys": np.zeros(1, np.int64), "rows": np.zeros((1, 2), np.float32)}, source)
    with pytest.raises(OSError, match="ads"):
        parquet.convert(source, target)
