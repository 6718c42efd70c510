"""The way back: what is wanted, what images have of it, and the copy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from paceline._native import Image
from paceline.plan import Box, Framework, Leaf


@dataclass
class Source:
    """An image to restore from."""

    image: Image
    rank: int
    boxes: list[tuple[str, str, list[int], list[int], int]]


class Restoring:
    """A restore under way: frameworks say what they want, then everything is copied at once."""

    def __init__(self, sources: list[Source], own: dict[str, object], *, strict: bool) -> None:
        self.own = own  # the notes of the image nearest to this rank
        self.strict = strict
        self.wanted: list[tuple[Leaf, list[tuple[Source, int, Box]]]] = []
        self.problems: list[str] = []
        self.left_out: list[str] = []
        self.after: list[Callable[[], None]] = []
        self._found: dict[str, list[tuple[Source, int, Box]]] = {}
        self._asked: set[str] = set()
        for source in sources:
            for index, (key, dtype, shape, offset, _bytes) in enumerate(source.boxes):
                box = Box(dtype, tuple(shape), tuple(offset), ())
                self._found.setdefault(key, []).append((source, index, box))
        shapes = cast("dict[str, list[int]]", own.get("shapes", {}))
        for key, parts in self._found.items():
            # One part of a sharded tensor does not tell how large the whole one is.
            ends = shapes.get(key) or [
                max(o + s for o, s in zip(axis_o, axis_s, strict=True))
                for axis_o, axis_s in zip(
                    zip(*(part[2].offset for part in parts), strict=True),
                    zip(*(part[2].shape for part in parts), strict=True),
                    strict=True,
                )
            ]
            self._found[key] = [
                (source, index, Box(box.dtype, box.shape, box.offset, tuple(ends)))
                for source, index, box in parts
            ]

    def whole(self, key: str) -> Box | None:
        """The whole tensor of that name, as far as it was saved in what is at hand."""
        parts = self._found.get(key)
        if parts is None:
            return None
        box = parts[0][2]
        return Box(box.dtype, box.whole, (0,) * len(box.whole), box.whole)

    def saved_box(self, key: str) -> Box | None:
        parts = self._found.get(key)
        return None if parts is None else parts[0][2]

    def names_below(self, prefix: str) -> list[str]:
        return [key for key in self._found if key.startswith(prefix)]

    def want(self, leaf: Leaf) -> bool:
        """`leaf.memory` shall be filled. False: it was not saved, and the caller leaves it out."""
        self._asked.add(leaf.key)
        parts = self._found.get(leaf.key)
        if parts is None:
            (self.problems if self.strict else self.left_out).append(f"{leaf.key} was not saved")
            return False
        saved = parts[0][2]
        if saved.dtype != leaf.box.dtype:
            self.problems.append(f"{leaf.key} was saved as {saved.dtype}, not {leaf.box.dtype}")
            return False
        exact = [
            part
            for part in parts
            if part[2].shape == leaf.box.shape and part[2].offset == leaf.box.offset
        ]
        if exact and (not leaf.box.is_sharded or len(parts) == 1 or saved.whole == leaf.box.whole):
            self.wanted.append((leaf, exact[:1]))
            return True
        if saved.whole != leaf.box.whole:
            self.problems.append(
                f"{leaf.key} was saved as {list(saved.whole)}, not {list(leaf.box.whole)}"
            )
            return False
        self.wanted.append((leaf, [part for part in parts if _overlap(part[2], leaf.box)]))
        return True

    def leave_rest(self) -> None:
        """What was saved and nobody asked for."""
        rest = sorted(set(self._found) - self._asked)
        (self.problems if self.strict else self.left_out).extend(
            f"{key} was saved, and the state has no such tensor" for key in rest
        )

    def copy(self, framework: Framework) -> None:
        direct: dict[int, tuple[Source, list[tuple[int, int]]]] = {}
        for leaf, parts in self.wanted:
            source, index, box = parts[0]
            if len(parts) == 1 and (box.shape, box.offset) == (leaf.box.shape, leaf.box.offset):
                pairs = direct.setdefault(id(source), (source, []))[1]
                pairs.append((index, _address(leaf.memory)))
        for source, pairs in direct.values():
            source.image.restore(pairs)
        for leaf, parts in self.wanted:
            source, index, box = parts[0]
            if len(parts) == 1 and (box.shape, box.offset) == (leaf.box.shape, leaf.box.offset):
                continue
            for source, index, box in parts:
                memory = framework.new_tensor(box)
                source.image.restore([(index, _address(memory))])
                framework.cut(leaf, memory, box)
        for leaf, _parts in self.wanted:
            if leaf.live is not None:
                framework.write_back(leaf)
        for action in self.after:
            action()


def _overlap(a: Box, b: Box) -> bool:
    return all(
        ao < bo + bs and bo < ao + az
        for ao, az, bo, bs in zip(a.offset, a.shape, b.offset, b.shape, strict=True)
    )


def _address(memory: object) -> int:
    return cast("_Memory", memory).data_ptr()


class _Memory(Protocol):
    def data_ptr(self) -> int: ...
