"""A live stream trains tables inside the process: parts, refused records and idle versions."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import paceline.embedding as pe
import pyarrow
import pyarrow.parquet
import pytest
import torch
from paceline._data import in_hand
from paceline.embedding import port
from paceline.serving import Reader, versions
from paceline.torch import ArgumentError, LeasedLoader, Stream

_numbers = itertools.count()


class Training:
    """Each record n adds 1 to row n. A record that is divisible by 10 is refused."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.name = f"stream-steps-{next(_numbers)}"
        self.folder, self.files = folder, 0
        folder.mkdir()
        self.table = pe.Table(self.name, dim=1, optimizer=pe.SGD(1.0), scale=0.0)
        self.model = torch.nn.Sequential(pe.Embedding(self.table))
        self.opt = pe.Optimizer(self.model, name=self.name)
        stream = Stream(f"files://{folder}/*.parquet", decode=self.decode, name=self.name)
        self.loader = LeasedLoader(stream, **{"batch_size": 7, "wait": 0.05, **options})
        self.sizes: list[int] = []

    @staticmethod
    def decode(row: dict[str, int]) -> torch.Tensor:
        if row["n"] % 10 == 0:
            raise ValueError("it is divisible by 10")
        return torch.tensor(row["n"])

    def write(self, *numbers: int) -> None:
        pyarrow.parquet.write_table(
            pyarrow.table({"n": numbers}), self.folder / f"{self.files:03}.parquet")
        self.files += 1

    def step(self, batch: torch.Tensor) -> None:
        self.sizes.append(len(batch))
        (-self.model(batch).sum()).backward()
        self.opt.step()

    def until(self, count: int) -> None:
        """Trains until so many records are in the table."""
        for batch in self.loader:
            self.step(batch)
            if len(self.rows()) >= count:
                self.loader.done()
                return

    def rows(self) -> dict[int, float]:
        """Without rows that were only looked up."""
        keys, rows = map(np.asarray, self.table.export())
        values = rows[:, 0].tolist() if len(keys) else []
        return {key: value for key, value in zip(keys.tolist(), values, strict=True) if value}

    def push(self, begin: int, end: int) -> None:
        """What an earlier worker had pushed of a partition."""
        batch = in_hand.Batch(data_set=self.name, ordinals=[(begin, end)], rank=1, incarnation=1,
                              obstacle="")
        port.leave_out(batch)


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "records")


def test_each_record_counts_once(training: Training) -> None:
    training.write(*range(1, 41))
    training.write(*range(41, 81))
    training.until(72)
    assert training.rows() == {n: 1 for n in range(1, 81) if n % 10}


def test_what_an_earlier_worker_has_pushed_is_skipped_and_the_rest_is_trained(
    training: Training,
) -> None:
    training.write(*range(1, 41))
    training.push(0, 9)  # records 1 to 9
    training.push(20, 23)  # records 21 to 23
    training.until(36 - 9 - 3)
    expected = {n for n in range(1, 41) if n % 10} - set(range(1, 10)) - {21, 22, 23}
    assert training.rows() == dict.fromkeys(expected, 1)
    assert min(training.sizes) < 7, "a batch came again in parts"


def test_a_batch_without_a_step_is_left_out(training: Training) -> None:
    training.write(*range(1, 15))
    batches = iter(training.loader)
    left_out = next(batches).tolist()
    training.step(next(batches))
    training.loader.done()
    assert set(training.rows()) == {n for n in range(1, 15) if n % 10} - set(left_out)
    again = in_hand.Batch(data_set=training.name, ordinals=[(0, 14)], rank=0, incarnation=1,
                          obstacle="")
    answer, _ = port.wait(lambda: port.tables().push(
        training.name, again.ordinals, 0, 1, 0, []))
    assert answer == "skipped", "no hole is left, neither for the batch nor for refused records"


def test_an_idle_stream_publishes_the_last_step(training: Training, tmp_path: Path) -> None:
    publish = pe.Publish(tmp_path / "serve", training.opt, every=0.2)
    seen: Counter[int] = Counter()
    call = publish._tick_idle

    def stop_when_served() -> None:
        call()
        current = versions.read_current(publish.directory)
        if current is not None:
            with Reader(publish.directory, every=None) as reader:
                seen.update(reader.version().rows(training.name, [1, 2, 3])[:, 0].astype(int))
            if own_position(reader).get("whole") == 2:
                raise KeyboardInterrupt

    def own_position(reader: Reader) -> dict[str, Any]:
        found = reader.version().position or []
        return next((dict(one) for one in found if one["data_set"] == training.name), {})

    in_hand.while_waiting(stop_when_served)
    try:
        training.write(1, 2)
        training.write(3)
        with pytest.raises(KeyboardInterrupt):
            training.until(10**6)
    finally:
        in_hand._while_waiting.remove(stop_when_served)
    with Reader(publish.directory, every=None) as reader:
        assert (reader.version().rows(training.name, [1, 2, 3]) == 1).all()
        assert own_position(reader) == {"data_set": training.name, "partitions": [], "whole": 2}
    assert set(seen) <= {0, 1}
    written = versions.versions_in(publish.directory)
    publish._next = 0.0
    call()
    publish._join()
    assert versions.versions_in(publish.directory) == written, "nothing has changed"


def test_a_batch_size_is_named_as_it_was_given(tmp_path: Path) -> None:
    stream = Stream(f"files://{tmp_path}/*.parquet")
    with pytest.raises(ArgumentError, match="batch_size=0 is not allowed"):
        LeasedLoader(stream, batch_size=0)
