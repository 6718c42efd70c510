"""An import takes all of a foreign checkpoint or none of it, and removes nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from dcp_alone import ALONE
from paceline.integrations import cover
from paceline.integrations.convert import main
from paceline.torch import Checkpointer, load
from small_training import make, same
from torch.distributed import checkpoint as dcp

BINARY = Path(sys.executable).parent / "paceline"
pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]


def refused(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of an import that leaves nothing behind."""
    capsys.readouterr()
    assert main(["import", str(source), str(tmp_path / "in")]) == 2
    assert not (tmp_path / "in").exists()
    text = capsys.readouterr().err
    assert "error[PL-E083]: the file cannot be imported" in text
    for part in ("where", "why", "fix"):
        assert part in text
    return text


def test_an_import_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, _ = make()
    with Checkpointer(tmp_path / "c", keep=5) as ckpt:
        for step in range(3):
            ckpt.save(step, {"model": net}).wait("durable")
    torch.save({"model": net.state_dict()}, tmp_path / "x.pt")
    before = {one.name for one in (tmp_path / "c").glob("step-*")}
    assert len(before) == 3
    for value in ("1", "no number"):
        monkeypatch.setenv("PACELINE_CHECKPOINT_KEEP", value)
        step = {"1": "7", "no number": "8"}[value]
        assert main(["import", str(tmp_path / "x.pt"), str(tmp_path / "c"), "--step", step]) == 0
        assert before <= {one.name for one in (tmp_path / "c").glob("step-*")}


class Altered(dcp.FileSystemWriter):
    """Writes a folder whose .metadata is not that of its files."""

    def __init__(self, path: Path, alter: Any) -> None:
        super().__init__(path)
        self._alter = alter

    def finish(self, metadata: Any, results: Any) -> None:
        super().finish(metadata, self._alter(metadata, results))


def save(folder: Path, alter: Any) -> None:
    state = {"model": make()[0].state_dict(), "epoch": 3}
    dcp.save(state, storage_writer=Altered(folder, alter), **ALONE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "dcp", lambda _metadata, results: results)
    return tmp_path / "dcp"


def without(name: str) -> Any:
    """Leaves out where that entry lies."""
    return lambda _metadata, results: [
        [one for one in rank if one.index.fqn != name] for rank in results
    ]


def no_chunk(metadata: Any, results: Any) -> Any:
    metadata.state_dict_metadata["model.0.weight"].chunks.clear()
    return results


def smaller(metadata: Any, results: Any) -> Any:
    kind = metadata.state_dict_metadata["model.0.weight"]
    kind.size = kind.chunks[0].sizes = torch.Size((2, 5))
    return results


@pytest.mark.parametrize(
    ("alter", "word"),
    [
        (without("model.0.weight"), "model.0.weight is not all there"),
        (without("epoch"), "epoch is not all there"),
        (no_chunk, "the parts of model.0.weight do not make up"),
        (smaller, "a part of model.0.weight is"),
    ],
)
def test_a_part_of_a_tensor_that_is_missing_is_an_error(
    alter: Any, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "dcp", alter)
    assert word in refused(tmp_path / "dcp", tmp_path, capsys)


def test_a_file_that_is_missing_or_cut_off_is_an_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data,) = folder.glob("*.distcp")
    text = data.read_bytes()
    data.write_bytes(text[:-1])
    assert "it ends before byte" in refused(folder, tmp_path, capsys)
    data.unlink()
    assert "names this file, and it is not there" in refused(folder, tmp_path, capsys)
    torch.save({"model": make()[0].state_dict()}, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "x.pt", tmp_path, capsys)
    assert "No such file" in refused(tmp_path / "y.pt", tmp_path, capsys)


def exported(tmp_path: Path, *words: str) -> tuple[torch.nn.Module, Path]:
    torch.manual_seed(5)
    net, _ = make()
    net.register_buffer("small", torch.arange(3, dtype=torch.bfloat16))
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"model": net})
    out = tmp_path / "hf"
    command = [BINARY, "ckpt", "export", tmp_path / "c", out, "--to", "hf", *words]
    assert subprocess.run(command, check=False).returncode == 0
    return net, out


@pytest.mark.parametrize("limit", ["150B", "5GB"], ids=["sharded", "one file"])
def test_what_export_writes_for_hugging_face_comes_in(tmp_path: Path, limit: str) -> None:
    net, out = exported(tmp_path, "--max-file", limit)
    is_sharded = (out / "model.safetensors.index.json").exists()
    assert is_sharded == (limit == "150B")
    sources = [out] if is_sharded else [out, out / "model.safetensors"]
    for number, source in enumerate(sources):
        target = tmp_path / f"in{number}"
        assert main(["import", str(source), str(target), "--step", "4"]) == 0
        other, _ = make()
        other.register_buffer("small", torch.zeros(3, dtype=torch.bfloat16))
        assert load(target, {"model": other}).left_out == []
        assert same(net, other)


def test_a_sharded_folder_that_is_not_whole_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _net, out = exported(tmp_path, "--max-file", "150B")
    index = out / "model.safetensors.index.json"
    first, second, *_ = sorted(out.glob("model-*.safetensors"))
    named = json.loads(index.read_text())

    def tried(text: str) -> None:
        assert text in refused(out, tmp_path, capsys), text

    kept = first.read_bytes()
    first.unlink()
    tried("names this file, and it is not there")
    first.write_bytes(kept[:-1])
    tried("lies outside the file")
    first.write_bytes(kept[:20])
    tried("no whole file of safetensors")
    shutil.copy(second, first)
    tried("is in this file")
    first.write_bytes(kept)
    for wrong in ("{}", "[", '{"weight_map": {"a": "../x"}}', '{"weight_map": 3}'):
        index.write_text(wrong)
        refused(out, tmp_path, capsys)
    named["weight_map"]["not there"] = first.name
    index.write_text(json.dumps(named))
    tried("says that not there is in this file")
    index.unlink()
    tried("neither .metadata")


def test_boxes_make_up_an_array() -> None:
    halves = [((0, 0), (2, 4)), ((2, 0), (2, 4))]
    columns = [((0, at), (4, 1)) for at in range(4)]
    assert cover.is_tiled((4, 4), halves) and cover.is_tiled((4, 4), columns)
    assert cover.is_tiled((), [((), ())]) and cover.is_tiled((0, 3), [((0, 0), (0, 3))])
    assert cover.is_tiled((0, 3), []) and not cover.is_tiled((), [])
    assert not cover.is_tiled((4, 4), halves[:1]), "a hole"
    assert not cover.is_tiled((4, 4), [halves[0], halves[0]]), "one twice"
    assert not cover.is_tiled((4, 4), [((0, 0), (2, 4)), ((1, 0), (2, 4))]), "they overlap"
    assert not cover.is_tiled((4, 4), [((0, 0), (5, 4))]) and not cover.is_tiled((4,), halves)
    assert not cover.is_tiled((4, 4), [((-2, 0), (4, 4))])
