"""Where a process keeps files of its user, also for a user without a home or a name."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from paceline._base import launch


def nobody(_uid: int) -> pwd.struct_passwd:
    raise KeyError("no such user")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / f"paceline-home-{os.geteuid()}"


def test_the_home_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert launch.cache_dir() == Path("/home/u/.cache/paceline")
    assert launch.state_dir() == Path("/state/paceline")


def test_without_a_home_it_is_a_private_folder(homeless: Path) -> None:
    for _ in range(2):
        assert launch.cache_dir() == homeless / ".cache/paceline"
        assert launch.state_dir() == homeless / ".local/state/paceline"
    assert homeless.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_enter_is_not_taken(homeless: Path) -> None:
    homeless.mkdir()
    homeless.chmod(0o777)
    assert launch.cache_dir() == Path("/dev/null/paceline")
    homeless.rmdir()
    homeless.symlink_to("/tmp")
    assert launch.cache_dir() == Path("/dev/null/paceline")
