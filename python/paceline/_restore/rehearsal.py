"""Checks before the first save that a restore would fit this state. Changes nothing.

    rehearse(framework, planned, text, state)  # raises CheckpointError if it would not

It decodes the notes as they are written and asks for each tensor as a restore does. It copies
nothing, and no object loads its state.
"""

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import cast

from paceline._base.wording import described
from paceline._native import Image
from paceline._restore import loading
from paceline._restore.images import Images
from paceline._restore.parts import Part
from paceline._restore.restoring import Framework, Restoring, shortened
from paceline._state import notes
from paceline._state.save_plan import Box, State
from paceline._state.save_planner import Planned
from paceline.errors import CheckpointError

Listed = list[object]
_SIMPLE = (int, float, str, bool, bytes, complex)


def rehearse(framework: Framework, planned: Planned, text: bytes, state: State) -> None:
    """Raise CheckpointError if a restore of `planned` and its notes would not give `state`."""
    work = _Rehearsal(framework, planned, text)
    try:
        loading.ask(work, framework, state)
        notes.decode(work.own.get("random", {}))
    except notes.NotesError as error:
        work.problems.append(str(error))
    if not work.problems:
        return
    raise CheckpointError(
        what="the state could not be restored from a checkpoint of it",
        where="Checkpointer.save",
        why=shortened(work.problems),
        fix="give the named object a state_dict and load_state_dict of plain values and tensors",
        is_final=True,
    )


class _Written:
    """The data of the coming save, in the form of an image."""

    def __init__(self, planned: Planned, text: bytes) -> None:
        self.notes = text
        self._planned = planned

    def boxes(self) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...], int]]:
        leaves = self._planned.plan.leaves
        return [(one.key, one.box.dtype, one.box.shape, one.box.offset, 0) for one in leaves]


class _Rehearsal(Restoring):
    def __init__(self, framework: Framework, planned: Planned, text: bytes) -> None:
        image = cast("Image", _Written(planned, text))
        rank = cast("int", json.loads(text)["rank"])
        super().__init__(
            framework, Images([rank], rank, lambda _rank: image), strict=True, size=1
        )
        self._planned = planned
        self._found = {leaf.key: leaf.found for leaf in planned.plan.leaves}

    @property
    def is_resized(self) -> bool:
        return False  # the ranks of the save restore it

    def _is_planned(self, key: str, tensor: object) -> bool:
        if tensor is None or self._found.get(key) is not tensor:
            return False
        self._asked.add(key)
        return True

    def _ask(self, key: str, tensor: object, parts: list[Part]) -> None:
        pass

    def _made(self, box: Box, there: object, like: object, tag: str) -> object:
        return there

    def _is_taken(self, tensor: object) -> bool:
        return False

    def want(self, key: str, tensor: object) -> bool:
        if self._is_planned(key, tensor):
            return True
        if self._framework.tag(tensor) is not None:
            return super().want(key, tensor)
        there = _named(tensor)
        self.problems.append(f"{key} is a tensor, and its place in the state holds {there}")
        return False

    def _take(self, tensor: object) -> None:
        pass

    def _live(self, key: str, value: object) -> object:
        return self._planned.asked.get(key, value)

    def compare(self, key: str, live: Callable[[], object], back: object) -> None:
        self._compare(key, live(), back)

    def _compare(self, where: str, live: object, back: object) -> None:
        if live is back or (type(live) is type(back) and type(live) in _SIMPLE):
            return
        if self._framework.tag(live) is not None or self._framework.tag(back) is not None:
            self.problems.append(f"{where} would come back as {_named(back)}, not {_named(live)}")
        elif isinstance(live, Mapping):
            self._compare_items(where, cast("Mapping[object, object]", live), back)
        elif isinstance(live, (list, tuple, deque)):
            is_alike = isinstance(back, (list, tuple, deque)) and len(back) == len(live)
            if not is_alike:
                self.problems.append(f"{where} would come back as {_named(back)}")
                return
            for i, (one, other) in enumerate(
                zip(cast("Listed", live), cast("Listed", back), strict=True)
            ):
                self._compare(f"{where}.{i}", one, other)
        elif dataclasses.is_dataclass(live) and not isinstance(back, Mapping):
            for field in dataclasses.fields(live):
                name = field.name
                self._compare(f"{where}.{name}", getattr(live, name), getattr(back, name, None))
        elif not _is_value_of(live, back):
            self.problems.append(f"{where} would come back as {_named(back)}, not {_named(live)}")

    def _compare_items(self, where: str, live: Mapping[object, object], back: object) -> None:
        if not isinstance(back, Mapping):
            self.problems.append(f"{where} would come back as {_named(back)}, not {_named(live)}")
            return
        given = cast("Mapping[object, object]", back)
        for key, value in live.items():
            if key in given:
                self._compare(f"{where}.{key}", value, given[key])
            else:
                self.problems.append(f"{where}.{key} would not come back")
        for key in given:
            if key not in live:
                self.problems.append(f"{where}.{key} would come back, and is not in the state")


def _is_value_of(live: object, back: object) -> bool:
    if isinstance(live, (bytes, bytearray)):
        return isinstance(back, (bytes, bytearray))
    if isinstance(live, Set):
        return isinstance(back, Set) and len(cast("Set[object]", live)) == len(
            cast("Set[object]", back)
        )
    # A subclass of str comes back as str.
    return type(live) is type(back) or isinstance(live, type(back))


def _named(value: object) -> str:
    return "nothing" if value is None else described(value)
