"""Our command line against torchrun's of every release from 2.8 on, from recorded facts.

test_torchrun_flags.py compares values with the one torchrun that is installed; here the names,
the arity, the choices and the defaults of all releases are compared, without any of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import paceline

FACTS: dict[str, Any] = json.loads(
    Path(__file__).with_name("torchrun_releases.json").read_text(encoding="utf-8")
)
RELEASES: list[str] = FACTS["releases"]
# Values that torchrun's converters take.
SAMPLES = {"str": "text", "int": "3", "float": "0.5", "comma_separated_list": "a,b"}


def flags_of(release: str) -> Iterator[dict[str, Any]]:
    for flag in FACTS["flags"]:
        if RELEASES.index(flag["first"]) <= RELEASES.index(release) <= RELEASES.index(flag["last"]):
            yield flag


# Another logs specification is refused by name: there is only torchrun's own.
ONLY = {"logs_specs": "default"}


def words(flag: dict[str, Any], spelling: str) -> Iterator[list[str]]:
    """Every way of giving it: as a switch, or with each kind of value, apart and joined."""
    if not flag["takes_value"]:
        yield [spelling]
        return
    for value in flag["choices"] or [ONLY.get(flag["dest"], SAMPLES[flag["type"]])]:
        yield [spelling, value]
        yield [f"{spelling}={value}"]


def parsed(line: list[str]) -> dict[str, Any]:
    done = paceline("config", "parse-torchrun", "--", *line)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return json.loads(done.stdout)


def test_every_minor_release_is_there() -> None:
    minors = [tuple(int(part) for part in release.split(".")[:2]) for release in RELEASES]
    assert sorted(set(minors)) == [(2, minor) for minor in range(8, 16)]
    for release in RELEASES:
        names = [flag["dest"] for flag in flags_of(release)]
        assert len(names) == len(set(names)) >= 24, release


@pytest.mark.parametrize("flag", FACTS["flags"], ids=lambda f: f"{f['dest']}-{f['first']}")
def test_every_flag_of_every_release_is_accepted_in_each_spelling(flag: dict[str, Any]) -> None:
    long = [spelling[2:] for spelling in flag["spellings"] if spelling.startswith("--")]
    both = {"--" + name.replace(*way) for name in long for way in ("_-", "-_")}
    given: list[Any] = []
    for spelling in sorted({*flag["spellings"], *both}):
        for line in words(flag, spelling):
            ours = parsed([*line, "t.py"])
            assert ours["training_script"] == "t.py", f"{line} took the script as its value"
            given.append(ours[flag["dest"]])
    kinds = {json.dumps(value) for value in given}
    assert len(kinds) == max(1, len(flag["choices"] or [])), f"the spellings differ: {kinds}"


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_not_given_has_the_value_of_that_release(release: str) -> None:
    ours = parsed(["t.py"])
    for flag in flags_of(release):
        expected = flag["default"]
        if flag["dest"] == "master_port":
            # Unset from 2.12 on, 29500 before; to us unset means 29500.
            assert expected in (None, 29500)
            expected = None
        assert ours[flag["dest"]] == expected, flag["dest"]


def test_what_no_release_has_is_refused() -> None:
    assert paceline("config", "parse-torchrun", "--", "--nope", "t.py").returncode == 2
