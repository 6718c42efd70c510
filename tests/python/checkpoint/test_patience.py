"""Storage that is away while a rank restores: who waits, how long, and what is called damaged."""

import subprocess
import sys
from pathlib import Path

import pytest
from paceline._restore.images import UnreadableError
from paceline._restore.patience import (
    DENIED_SECONDS,
    FILE_SECONDS,
    STORAGE_SECONDS,
    read_patiently,
)
from paceline.errors import CheckpointError
from paceline.torch import Checkpointer, Loaded, load

pytestmark = pytest.mark.usefixtures("own_keeper")


class Time:
    """Passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def fail(
    folder: Path, why: str, *, is_away: bool, time: Time, is_all_away: bool = False
) -> UnreadableError:
    """How a read ends that never succeeds."""

    def read() -> None:
        raise UnreadableError(why, is_away=is_away, is_all_away=is_all_away)

    with pytest.raises(UnreadableError) as raised:
        read_patiently(read, str(folder), now=lambda: time.now, sleep=time.sleep)
    return raised.value


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A checkpoint's folder."""
    import torch

    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(3, {"x": torch.ones(10)})
    return next((tmp_path / "c").glob("step-3-*"))


def test_what_is_damaged_is_told_at_once(whole: Path) -> None:
    time = Time()
    assert not fail(whole, "chunk 0", is_away=False, time=time).is_away
    assert not time.pauses


def test_storage_that_is_away_is_waited_for_with_growing_pauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time = Time()
    folder = tmp_path / "c" / "step-3-g1"
    assert fail(folder, "EIO", is_away=True, time=time).is_away, "the checkpoint may be whole"
    assert STORAGE_SECONDS <= time.now < STORAGE_SECONDS + 10
    assert len(time.pauses) < 200
    assert capsys.readouterr().err.count("cannot be read now") == 1


def test_a_directory_that_is_not_mounted_is_no_damage(tmp_path: Path) -> None:
    folder = tmp_path / "c" / "step-3-g1"
    assert fail(folder, "not found", is_away=False, time=Time()).is_away


def test_one_file_that_cannot_be_read_is_damaged_after_a_minute(whole: Path) -> None:
    time = Time()
    error = fail(whole, "EIO", is_away=True, time=time)
    assert not error.is_away, "the next world takes the one before"
    assert FILE_SECONDS <= time.now < FILE_SECONDS + 10


def test_what_an_agent_cannot_ask_is_away_though_its_manifest_is_here(whole: Path) -> None:
    """Chunks of an object store: the manifest lies on this host's disk and says nothing."""
    time = Time()
    error = fail(whole, "it does not answer", is_away=True, is_all_away=True, time=time)
    assert error.is_away, "the checkpoint may be whole"
    assert time.now >= STORAGE_SECONDS


def test_a_file_without_read_rights_is_told_soon_and_is_not_damaged(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a person can grant rights; a share that lost them for a moment grants them itself."""
    time = Time()

    def read() -> None:
        raise UnreadableError("Permission denied", is_away=True, is_denied=True, rank=0)

    with pytest.raises(UnreadableError) as raised:
        read_patiently(read, str(whole), now=lambda: time.now, sleep=time.sleep)
    assert raised.value.is_denied
    assert raised.value.is_away
    assert DENIED_SECONDS <= time.now < DENIED_SECONDS + 10
    assert "trying again for up to 15 seconds" in capsys.readouterr().err


def test_a_checkpoint_without_read_rights_names_them(whole: Path) -> None:
    """In a process of another user: root may read everything."""
    denied = [next(whole.glob("shard-*")), whole / "MANIFEST.json", whole]
    inside = [str(path.relative_to(whole.parent)) for path in denied]
    done = subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT_RIGHTS, str(whole.parent), *inside],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Permission denied" in done.stdout
    assert done.stdout.count("grant this user the rights to read it") == len(denied), done.stdout


LOAD_WITHOUT_RIGHTS = """
import os, sys, torch
from paceline.torch import CheckpointError, load

directory, *denied = sys.argv[1:]
if os.geteuid() == 0:
    for path, _folders, files in os.walk(directory):
        for name in (path, *(os.path.join(path, file) for file in files)):
            os.chown(name, 65534, 65534)
    os.fchdir(os.open(directory, os.O_PATH))  # folders above may be root's alone
    os.setegid(65534)
    os.seteuid(65534)
for path in denied:
    mode = os.stat(path).st_mode
    os.chmod(path, 0)
    try:
        load(".", {"x": torch.zeros(10)})
    except CheckpointError as error:
        print(error)
    os.chmod(path, mode)
"""


def test_a_file_that_comes_back_is_restored(whole: Path) -> None:
    import torch

    shard = next(whole.glob("shard-*.safetensors"))
    aside = shard.with_suffix(".aside")
    shard.rename(aside)
    shard.symlink_to(shard.name)  # whoever opens it is told that there are too many links
    found = {"x": torch.zeros(10)}

    def come_back(_seconds: float) -> None:
        if aside.exists():
            aside.replace(shard)

    loaded = read_patiently(
        lambda: _load(whole, found), str(whole), now=lambda: 0.0, sleep=come_back
    )
    assert loaded.step == 3
    assert torch.equal(found["x"], torch.ones(10))


def _load(folder: Path, state: dict[str, object]) -> Loaded:
    """As a Checkpointer reads it, without one."""
    try:
        return load(folder, state)
    except CheckpointError as error:
        assert isinstance(error.__cause__, UnreadableError)
        raise error.__cause__ from error
