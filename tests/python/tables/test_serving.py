"""Versions for serving: what `Publish` writes, and what `Reader` serves of it."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import paceline.embedding as pe
import pytest
import torch
from paceline.errors import ArgumentError, DataError
from paceline.serving import Reader, versions
from paceline.torch import ElasticDataset, LeasedLoader

PACELINE = str(Path(sys.executable).with_name("paceline"))
_numbers = itertools.count()


class Training:
    """A table and a linear layer, a step at a time."""

    def __init__(self, directory: Path, keys: int = 50) -> None:
        name = f"served{next(_numbers)}"
        self.table = pe.Table(name, dim=4, optimizer=pe.SGD(1e-3), scale=0.5)
        self.model = torch.nn.Sequential(pe.EmbeddingBag(self.table), torch.nn.Linear(4, 3))
        self.opt = pe.Optimizer(self.model, dense=pe.SGD(1e-3), name=name)
        self.publish = pe.Publish(directory, self.opt, every=0.01)
        self.publish._next = math.inf  # only when a test says so
        self.keys = keys
        data = torch.randint(-keys // 2, keys // 2, (4_000, 2),
                             generator=torch.Generator().manual_seed(1))
        loader = LeasedLoader(ElasticDataset(list(data), seed=1), name=name, batch_size=4)
        self._batches = iter(loader)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.model(next(self._batches)).sum().backward()
            self.opt.step()

    def is_served(self, reader: Reader) -> bool:
        """Whether the reader's version is what the model would answer now."""
        version = reader.version()
        keys = torch.arange(-self.keys // 2, self.keys // 2)
        theirs, rows = map(np.asarray, self.table.export())
        own = dict(zip(theirs.tolist(), rows, strict=True))
        found = version.rows(self.table.name, keys.numpy())
        expected = np.stack([own.get(key, np.zeros(4, np.float32)) for key in keys.tolist()])
        head = self.model[1]
        return bool(
            (found == expected).all()
            and (version.dense("1.weight") == head.weight.detach().numpy()).all()
            and (version.dense("1.bias") == head.bias.detach().numpy()).all())


@pytest.fixture
def training(tmp_path: Path) -> Training:
    made = Training(tmp_path / "serve")
    made.step(3)
    made.publish.now()
    return made


def manifest(directory: Path, version: int) -> dict[str, Any]:
    return json.loads((versions.place_of(directory, version) / "manifest.json").read_text())


def test_a_version_is_what_the_model_has(training: Training) -> None:
    directory = training.publish.directory
    with Reader(directory, every=None) as reader:
        assert training.is_served(reader)
        held = reader.version()
        before = held.rows(training.table.name, [0, 1, -1])
        training.step(2)
        training.publish.now()
        assert not training.is_served(reader)
        assert reader.refresh()
        assert training.is_served(reader)
        assert (held.rows(training.table.name, [0, 1, -1]) == before).all()
        assert reader.version().tables == [training.table.name]
        assert reader.version().parameters == ["1.weight", "1.bias"]
    second = manifest(directory, 2)
    assert second["parent"] == 1
    assert second["batch"]["data_set"] == training.table.name
    rows = next(one["rows"] for one in second["tables"] if one["name"] == training.table.name)
    assert 0 < rows <= 16, "only the rows of two batches"


def test_a_reader_that_was_away_takes_all_versions_between(training: Training) -> None:
    with Reader(training.publish.directory, every=None) as reader:
        for _ in range(5):
            training.step()
            training.publish.now()
        assert reader.refresh()
        assert training.is_served(reader)
    with Reader(training.publish.directory, every=None) as later:
        assert later.version().number == 6
        assert training.is_served(later)


def test_old_versions_are_removed_behind_the_second_whole_one(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.integrations.publish.WHOLE_EVERY", 3)
    directory = training.publish.directory
    for _ in range(9):
        training.step()
        training.publish.now()
    assert versions.versions_in(directory) == [6, 7, 8, 9, 10]
    with Reader(directory, every=None) as reader:
        assert training.is_served(reader)


def test_a_torn_version_is_passed_over_until_a_whole_one_comes(
    training: Training, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = training.publish.directory
    with Reader(directory, every=None) as reader, caplog.at_level(logging.WARNING):
        training.step()
        training.publish.now()
        torn = versions.place_of(directory, 2) / "0.values"
        torn.write_bytes(torn.read_bytes()[:-4])
        assert not reader.refresh()
        training.step()
        training.publish.now()
        assert not reader.refresh()
        assert reader.version().number == 1
        assert caplog.text.count("a version for serving cannot be read") == 1
        monkeypatch.setattr("paceline.integrations.publish.WHOLE_EVERY", 1)
        training.step()
        training.publish.now()
        assert reader.refresh()
        assert training.is_served(reader)


def test_a_reader_that_begins_serves_the_newest_version_that_it_can_read(
    training: Training
) -> None:
    directory = training.publish.directory
    for _ in range(3):
        training.step()
        training.publish.now()
    (versions.place_of(directory, 3) / "0.values").unlink()
    with Reader(directory, every=None) as reader:
        assert reader.version().number == 2
        assert not reader.refresh()
        assert reader.version().number == 2


def test_a_place_that_cannot_be_written_is_named(training: Training, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "serve", Path("/proc/serve")):
        with pytest.raises(DataError, match="cannot be published here"):
            pe.Publish(place, training.opt)


def test_a_full_disk_costs_no_row(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = training.publish.directory
    with Reader(directory, every=None) as reader:
        training.step()
        with monkeypatch.context() as patch:
            def full(*_: object) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(versions, "write_part", full)
            with pytest.raises(OSError, match="No space left"):
                training.publish.now()
        assert versions.versions_in(directory) == [1]
        assert not list((directory / "versions").glob(".*"))
        training.step()
        training.publish.now()
        assert reader.refresh()
        assert reader.version().number == 2
        assert training.is_served(reader)


def test_a_directory_that_was_emptied_begins_whole(training: Training) -> None:
    directory = training.publish.directory
    shutil.rmtree(directory)
    training.step()
    training.publish.now()
    assert manifest(directory, 1)["parent"] is None
    with Reader(directory, every=None) as reader:
        assert training.is_served(reader)


def test_requests_see_one_version_each(tmp_path: Path) -> None:
    """A step adds the same to every element of the bias, so a mixed one would show."""
    training = Training(tmp_path / "serve")
    training.step()
    training.publish.now()
    training.publish._next = 0.0
    mixed: list[Any] = []
    is_over = threading.Event()
    with Reader(tmp_path / "serve", every=0.001) as reader:
        first = training.model[1].bias.detach().numpy().copy()

        def ask() -> None:
            while not is_over.is_set():
                version = reader.version()
                moved = first - version.dense("1.bias")
                if not np.allclose(moved, moved[0], rtol=0, atol=1e-4):  # a step moves them by 4e-3
                    mixed.append(moved)

        asking = threading.Thread(target=ask)
        asking.start()
        training.step(300)
        training.publish.now()
        is_over.set()
        asking.join()
        assert not mixed
        reader.refresh()
        assert training.is_served(reader)
        assert reader.version().number > 3, "versions came while it was asked"


def paceline(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PACELINE, *words], capture_output=True, text=True, check=False)


def test_status_rollback_and_release(training: Training) -> None:
    directory = str(training.publish.directory)
    training.step()
    training.publish.now()
    shown = paceline("serve", "status", directory)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("version 2, ")
    assert "all rows" in shown.stdout and "changed rows" in shown.stdout
    with Reader(directory, every=None) as reader:
        assert paceline("serve", "rollback", directory).returncode == 0
        assert reader.refresh()
        assert reader.version().number == 1
        training.step()
        training.publish.now()
        assert not reader.refresh(), "a pinned version stays"
        told = json.loads(paceline("serve", "status", directory, "--json").stdout)
        assert (told["version"], told["is_pinned"]) == (1, True)
        assert [one["version"] for one in told["versions"]] == [1, 2, 3]
        assert paceline("serve", "release", directory).returncode == 0
        assert reader.refresh()
        assert training.is_served(reader)
    missing = paceline("serve", "rollback", directory, "77")
    assert missing.returncode == 5 and "PL-E252" in missing.stderr


def test_nothing_to_serve(tmp_path: Path) -> None:
    none = "there is no version to serve"
    with Reader(tmp_path, every=None) as reader, pytest.raises(DataError, match=none):
        reader.version()
    assert "PL-E251" in paceline("serve", "status", str(tmp_path)).stderr
    (tmp_path / "CURRENT").write_text("[]")
    with Reader(tmp_path, every=None) as reader, pytest.raises(DataError, match=none):
        reader.version()


def test_arguments(training: Training, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has to be a paceline\.embedding\.Optimizer"):
        pe.Publish(tmp_path, training.model)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="every"):
        pe.Publish(tmp_path, training.opt, every=0)
    with pytest.raises(TypeError):
        Reader(training.publish.directory).version().rows(training.table.name, [0.5])


@pytest.mark.parametrize("parent", [3, 2, -1, "1", "../../1", 1.5])
def test_a_version_follows_an_earlier_one_alone(tmp_path: Path, parent: object) -> None:
    folder = versions.place_of(tmp_path, 2)
    folder.mkdir(parents=True)
    manifest = {"schema": versions.SCHEMA, "version": 2, "parent": parent}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="cannot follow"):
        versions.read_manifest(tmp_path, 2)


@pytest.mark.parametrize("name", ["CURRENT", "versions/000000000001/manifest.json"])
def test_pipes_and_devices_are_not_read(tmp_path: Path, name: str) -> None:
    versions.place_of(tmp_path, 1).mkdir(parents=True)
    versions.write_current(tmp_path, versions.Current(1))
    place = tmp_path / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    reader = Reader(tmp_path, every=None)
    assert not reader.refresh()
    place.unlink()
    place.symlink_to("/dev/zero")
    assert not reader.refresh()


SCRIPT = """
import sys
import torch
import paceline.embedding as pe
from paceline.torch import ElasticDataset, LeasedLoader

table = pe.Table("ads", dim=2, optimizer=pe.SGD(1.0), scale=0)
model = pe.EmbeddingBag(table)
opt = pe.Optimizer(model, name="ending")
pe.Publish(sys.argv[1], opt, every=3600.0)
data = ElasticDataset([torch.tensor([1])] * 40, seed=1)
for batch in LeasedLoader(data, name="ending", batch_size=4):
    (-model(batch).sum()).backward()
    opt.step()
"""


def test_the_last_version_has_every_step_of_a_training_that_ended(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "serve")], check=True)
    with Reader(tmp_path / "serve", every=None) as reader:
        assert reader.version().number == 2
        assert reader.version().rows("ads", [1]).tolist() == [[40.0, 40.0]]


def test_one_process_publishes_into_a_directory(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.integrations.publish._LOCK_SECONDS", 0.1)
    with pytest.raises(DataError, match="another training publishes here"):
        pe.Publish(training.publish.directory, training.opt)
