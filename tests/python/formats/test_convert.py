"""What others saved comes in by torch's weights-only loader, and what runs code does not."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from dcp_alone import ALONE
from paceline.integrations.convert import main
from paceline.torch import Checkpointer, load
from small_training import goes_on_alike, make, same, train
from torch.distributed import checkpoint as dcp

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]


@pytest.mark.parametrize("how", ["pt", "old pt", "dcp", "export"])
def test_what_others_saved_comes_in(tmp_path: Path, how: str) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    torch.manual_seed(1)
    net, optimizer = make()
    train(net, optimizer, 2)
    source = tmp_path / "source"
    if how == "dcp":
        model, opt = get_state_dict(net, optimizer)
        dcp.save({"model": model, "optimizer": opt, "epoch": 3}, checkpoint_id=str(source),
                 **ALONE)
    elif how == "export":
        with Checkpointer(tmp_path / "first") as ckpt:
            ckpt.save(0, {"model": net, "optimizer": optimizer, "epoch": 3})
        assert main(["export", str(tmp_path / "first"), str(source)]) == 0
    else:
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
        torch.save(state, source, _use_new_zipfile_serialization=how == "pt")
    assert main(["import", str(source), str(tmp_path / "in"), "--step", "41"]) == 0
    other, again = make()
    found: dict[str, Any] = {"model": other, "optimizer": again, "epoch": 0}
    ckpt = Checkpointer(tmp_path / "in")
    assert ckpt.restore(found) == 42
    assert same(net, other) and found["epoch"] == 3
    assert goes_on_alike((net, optimizer), (other, again)), "the optimizer goes on as it was"


def test_a_state_dict_by_itself_is_the_model(tmp_path: Path) -> None:
    net, _ = make()
    wrapped = {f"module.{key}": value for key, value in net.state_dict().items()}
    torch.save({"net": wrapped}, tmp_path / "x.pt")
    torch.save(net.state_dict(), tmp_path / "y.pt")
    for name, entry in (("x", "net"), ("y", "model")):
        assert main(["import", str(tmp_path / f"{name}.pt"), str(tmp_path / name)]) == 0
        other, _ = make()
        assert load(tmp_path / name, {entry: other}).left_out == []
        assert same(net, other)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["MARK"],)


def test_what_runs_code_is_refused_and_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    torch.save({"model": Evil()}, tmp_path / "evil.pt")
    # posix.mkdir(TEXT), in the words of protocols 2 and 4
    text = str(tmp_path / "mark").encode()
    old = b"\x80\x02cposix\nmkdir\nX" + len(text).to_bytes(4, "little") + text + b"\x85R."
    new = b"\x80\x04\x8c\x05posix\x94\x8c\x05mkdir\x94\x93\x94X"
    new += len(text).to_bytes(4, "little") + text + b"\x94\x85\x94R\x94."
    # getattr of something else than the Enum that DCP's metadata has
    other = b"\x80\x04\x8c\x08builtins\x94\x8c\x07getattr\x94\x93\x94\x8c\x01x\x94\x8c\x05upper"
    other += b"\x94\x86\x94R\x94."
    pickles = {"old": old, "new": new, "attribute": other, "broken": b"\x80\x04"}
    for name, pickled in pickles.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".metadata").write_bytes(pickled)
    (tmp_path / "text.pt").write_text("hello")
    (tmp_path / "empty").mkdir()
    names = ("evil.pt", "old", "new", "attribute", "broken", "text.pt", "empty", "nothing")
    for name in names:
        assert main(["import", str(tmp_path / name), str(tmp_path / "in")]) == 2, name
        assert "error[PL-E083]: the file cannot be imported" in capsys.readouterr().err, name
    assert not (tmp_path / "mark").exists() and not (tmp_path / "in").exists()


def test_a_file_of_another_kind_is_called_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"text.pt": "import sys", "list.csv": "a,b", "empty.pt": ""}.items():
        (tmp_path / name).write_text(text)
        assert main(["import", str(tmp_path / name), str(tmp_path / "in")]) == 2, name
        told = capsys.readouterr().err
        assert "no torch.save wrote it" in told, told
        assert "file an issue" not in told, told
    torch.save({"model": torch.nn.Linear(1, 1)}, tmp_path / "module.pt")
    assert main(["import", str(tmp_path / "module.pt"), str(tmp_path / "in")]) == 2
    assert "why    Unsupported global: GLOBAL torch.nn" in capsys.readouterr().err
