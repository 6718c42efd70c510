"""Where checkpoints go: a directory that is made, or whose server has trouble."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from paceline._storage import storage_place
from paceline._storage.storage_place import make_directory, place_of
from paceline.errors import CheckpointError
from paceline.numpy import load

BINARY = Path(sys.executable).parent / "paceline"


def test_a_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    make_directory(str(tmp_path / "a" / "b"))
    make_directory("s3://bucket/run")
    assert not Path("s3:").exists()


@pytest.mark.parametrize("given", ["~/plx", "~", "~nobody/plx", Path("~/plx")])
def test_a_home_that_no_shell_has_replaced_is_refused(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (place_of, lambda one: load(one, {})):
        with pytest.raises(CheckpointError, match="only a shell replaces ~") as raised:
            call(given)
        assert f"os.path.expanduser({str(given)!r})" in raised.value.fix
    assert list(tmp_path.iterdir()) == []
    assert place_of("./~plx") == str(tmp_path / "~plx")


def test_where_nothing_can_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be created: Not a directory") as raised:
        make_directory(str(tmp_path / "file" / "c"))
    assert raised.value.where == str(tmp_path / "file" / "c")
    with pytest.raises(CheckpointError) as raised:
        make_directory(str(tmp_path / "file"))
    assert raised.value.why == "it is a file"


def test_what_passes_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = os.makedirs
    failures = [errno.ENOTCONN, errno.ESTALE]
    is_told, is_made = threading.Event(), threading.Event()

    def stumble(path: str, mode: int, *, exist_ok: bool) -> None:
        if len(failures) == 1:  # not before the first failure was read, on a slow machine too
            is_told.wait(120)
        if failures:
            raise OSError(failures[0], os.strerror(failures.pop(0)))
        make(path, mode, exist_ok=exist_ok)
        is_made.set()

    monkeypatch.setattr(os, "makedirs", stumble)
    monkeypatch.setattr(storage_place, "_PAUSE_SECONDS", 0.01)
    make_directory(str(tmp_path / "c"), patience=60)
    is_told.set()
    told = capfd.readouterr().err
    assert "cannot be reached (Transport endpoint is not connected); images in memory" in told
    assert is_made.wait(120)
    assert (tmp_path / "c").is_dir()


def test_nobody_waits_for_a_server_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = threading.Event()

    def look(_path: str) -> bool:
        return answers.wait()

    with monkeypatch.context() as patched:
        patched.setattr(os.path, "isdir", look)
        make_directory(str(tmp_path / "c"), patience=0.01)
    answers.set()
    assert "cannot be reached (it does not answer within 0 s)" in capfd.readouterr().err


_NOWHERE = ["gs://b/run", "azure://x/y", "S3://bucket/run", "abfs:/x", "file:///runs/gpt"]
_NO_BUCKET = ["s3://", "s3://a", "s3://My-Bucket/x", "s3://my_bucket/x", "s3://bucket/a b"]


@pytest.mark.parametrize("place", _NOWHERE + _NO_BUCKET)
def test_a_place_that_nothing_serves_is_refused_at_once(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline.integrations.dcp import PacelineReader, PacelineWriter
    from paceline.numpy import Checkpointer, load

    monkeypatch.chdir(tmp_path)
    # pathlib leaves "s3:" of "s3://", which is a name like any other.
    given = place if place == "s3://" else Path(place)
    for use in (
        lambda: Checkpointer(place),
        lambda: Checkpointer(given),
        lambda: load(place, {}),
        lambda: PacelineWriter(place, step=1),
        lambda: PacelineReader(place).read_metadata(),
    ):
        with pytest.raises(CheckpointError) as raised:
            use()
        assert raised.value.why and raised.value.fix
    assert not PacelineWriter.validate_checkpoint_id(place)
    for command in (["ls", place], ["copy", place, "x"], ["export", "x", place, "--to", "hf"]):
        done = subprocess.run([BINARY, "ckpt", *command], check=False, capture_output=True)
        assert done.returncode != 0 and b"why" in done.stderr, command
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.integrations.dcp import PacelineReader, PacelineWriter

    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="this needs a directory"):
        PacelineWriter("s3://bucket/run", step=1)
    with pytest.raises(CheckpointError, match="paceline ckpt copy s3://bucket/run DIR"):
        PacelineReader("s3://bucket/run").read_metadata()
    assert list(tmp_path.iterdir()) == []
