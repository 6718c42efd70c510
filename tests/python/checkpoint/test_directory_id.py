"""Which images in memory belong to a directory or to a prefix of an object store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from paceline._storage import directory_id
from paceline._storage.directory_id import MARKER
from paceline._storage.object_store import StoreError

PLACE = "s3://bucket/runs/gpt"


class Store:
    """Stands for `paceline.object_store.ObjectStore`."""

    objects: ClassVar[dict[str, str]] = {}
    changed: ClassVar[dict[str, int]] = {}
    problem: ClassVar[StoreError | None] = None
    comes_first: ClassVar[str] = ""  # the id that another process puts before this one

    def __init__(self, place: str) -> None:
        assert place == PLACE

    def entries(self) -> dict[str, int]:
        if self.problem is not None:
            raise self.problem
        return {name: self.changed.get(name, 0) for name in self.objects}

    def text(self, name: str) -> str:
        return self.objects[name]

    def put_new(self, name: str, text: str) -> bool:
        if self.comes_first:
            self.objects[name] = self.comes_first
        is_new = name not in self.objects
        if is_new:
            self.objects[name] = text
        self.changed[name] = self.changed.get(name, 0) + 1
        return is_new

    def end(self) -> None:
        pass


Look = Callable[..., tuple[str, str | None]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.setattr(directory_id, "ObjectStore", Store)
    for name, value in (("objects", {}), ("changed", {}), ("problem", None), ("comes_first", "")):
        monkeypatch.setattr(Store, name, value)

    def look_up(*, kept: set[str]) -> tuple[str, str | None]:
        """`kept`: the keys under which there are images."""
        return directory_id.look_up(PLACE, tmp_path, kept.__contains__, 10.0)

    return look_up


def test_a_prefix_keeps_its_key_until_it_is_deleted(look: Look) -> None:
    first, newest = look(kept=set())
    assert newest == ""
    Store.objects |= {"step-4-g2": "", "step-9-g11-b3": "", "LATEST": "", "step-1-gx": ""}
    assert look(kept={first}) == (first, "step-9-g11-b3")
    Store.objects.clear()
    second, newest = look(kept={first})
    assert second != first
    assert newest == ""
    assert look(kept={first, second})[0] == second


def test_a_marker_that_was_copied_back_is_another_one(look: Look) -> None:
    first, _ = look(kept=set())
    Store.changed[MARKER] += 1
    assert look(kept={first})[0] != first


def test_of_two_processes_that_put_a_marker_one_does(look: Look) -> None:
    Store.comes_first = "another\n"
    key, _ = look(kept=set())
    assert "another" in key
    assert look(kept={key})[0] == key


@pytest.mark.parametrize(("kind", "why"), [("away", "no route"), ("denied", "AccessDenied")])
def test_a_store_that_cannot_be_asked_has_deleted_nothing(
    look: Look, capsys: pytest.CaptureFixture[str], kind: str, why: str
) -> None:
    first, _ = look(kept=set())
    Store.problem = StoreError(kind, why)
    assert look(kept={first})[0] == first
    told = capsys.readouterr().err
    assert f"{PLACE} cannot be read ({why}); training goes on from memory" in told
    assert look(kept=set()) == (PLACE, None), "nothing is in memory, so the path alone counts"


def test_memory_of_a_run_without_a_marker_is_kept(look: Look) -> None:
    Store.problem = StoreError("away", "no route")
    key, _ = look(kept=set())
    assert key == PLACE
    Store.problem = None
    assert look(kept={key})[0] == key
    assert look(kept={key})[0] == key
    Store.objects.clear()
    assert look(kept={key})[0] != key


def test_a_note_of_another_form_is_none(look: Look, tmp_path: Path) -> None:
    first, _ = look(kept=set())
    note = next(tmp_path.glob("*.directory"))
    for text in ("", "[]", "{}", json.dumps({"identity": [], "key": 1})):
        note.write_text(text)
        assert look(kept={first})[0] == first
