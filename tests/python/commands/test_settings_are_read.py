"""A setting that no code reads is an error: it would be accepted and have no effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "paceline"
TABLE = SOURCE / "cli" / "settings" / "setting.cc"
REQUEST = SOURCE / "cli" / "run" / "request.h"


def texts_without(*skipped: Path) -> str:
    files = [path for path in SOURCE.rglob("*") if path.suffix in (".cc", ".h")]
    return "\n".join(path.read_text() for path in files
                     if path not in skipped and not path.name.endswith("_test.cc"))


def keys() -> list[str]:
    """Of the settings that have no member of Timers or Budgets, which the codec carries."""
    return re.findall(r'\.key = "([a-z_]+\.[a-z_]+)"', TABLE.read_text())


def members() -> list[str]:
    """Of RunRequest, which is what `paceline run` was asked for."""
    body = REQUEST.read_text().split("struct RunRequest {")[1].split("\n};")[0]
    return re.findall(r"^  [\w:<>, ]+? (\w+)(?: = [^;]*)?;", body, re.MULTILINE)


@pytest.fixture(scope="module")
def readers() -> str:
    return texts_without(TABLE)


@pytest.fixture(scope="module")
def users() -> str:
    return texts_without(REQUEST, SOURCE / "cli" / "run" / "request.cc")


@pytest.mark.parametrize("key", keys())
def test_each_setting_is_read(key: str, readers: str) -> None:
    assert f'"{key}"' in readers


@pytest.mark.parametrize("member", members())
def test_each_part_of_a_request_is_used(member: str, users: str) -> None:
    assert re.search(rf"request(?:_|->|\.|\)\.)*\.?{member}\b", users), member


def test_the_tables_were_understood() -> None:
    assert "network.http_port" in keys() and len(keys()) > 40
    assert {"http_port", "local_nodes", "tls"} <= set(members())
