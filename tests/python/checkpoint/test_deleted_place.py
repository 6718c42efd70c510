"""The directory of checkpoints is deleted or renamed while a plain script trains."""

import shutil
import threading
from pathlib import Path

import pytest
import torch
from agent_double import wait_until
from paceline._checkpoint import deleted_place
from paceline._checkpoint.deleted_place import fix_of, is_gone
from paceline.torch import Checkpointer, CheckpointError

pytestmark = pytest.mark.usefixtures("own_keeper")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system of these tests answers, however late on a busy machine."""
    monkeypatch.setattr(deleted_place, "_ANSWER_SECONDS", 60.0)


def delete(place: Path) -> None:
    """At once: the keeper still tidies there, and files may come and go while a tree is removed."""
    place.rename(place.with_name("deleted"))
    shutil.rmtree(place.with_name("deleted"))


def state(value: float = 0.0) -> dict[str, torch.Tensor]:
    return {"x": torch.full((4,), value)}


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_ticket_says_what_brings_it_back(tmp_path: Path, how: str) -> None:
    place, other = tmp_path / "c", tmp_path / "other"
    with Checkpointer(place, every=1) as ckpt:
        ckpt.save(0, state(0)).wait()
        delete(place) if how == "deleted" else place.rename(other)
        with pytest.raises(CheckpointError, match="is not in storage") as refused:
            ckpt.save(1, state(1)).wait()
        assert f"mkdir {place}, or move it back; paceline tries again" in refused.value.fix
        place.mkdir() if how == "deleted" else other.rename(place)
        ckpt.save(2, state(2)).wait()
    found = state()
    with Checkpointer(place) as ckpt:
        assert ckpt.restore(found) == 3
    assert found["x"][0] == 2


def test_close_says_at_once_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deleted_place, "_WAIT_SECONDS", 0.01)
    place = tmp_path / "c"
    ckpt = Checkpointer(place, every=1)
    ckpt.save(0, state(0)).wait()
    delete(place)
    ckpt.save(1, state(1))
    closing = threading.Thread(target=ckpt.close)
    closing.start()
    said = ""

    def is_said() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return f"close() waits until step 1 is in storage: {place} is not there; mkdir" in said

    wait_until(is_said, "the line of close()")
    place.mkdir()
    closing.join()
    assert (place / "LATEST").exists()


def test_other_refusals_keep_their_fix(tmp_path: Path) -> None:
    fix = "repair the storage; paceline tries again with a later step"
    assert fix_of(fix, str(tmp_path)) == fix
    assert fix_of(fix, "s3://bucket/run") == fix
    assert not is_gone("s3://bucket/run") and is_gone(str(tmp_path / "nowhere"))
