"""The way back: what is wanted, which images have which part of it, and the copy."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Protocol, cast

from paceline import notes, planning
from paceline.images import Images, Region, Source
from paceline.plan import Box, CheckpointError, Framework, Leaf, State

_TOLD_MAX = 8


@dataclass(frozen=True)
class Part:
    """A box of a tensor in an image."""

    source: Source
    index: int
    box: Box


class Restoring:
    """A restore under way: frameworks say what they want, then everything is copied at once."""

    def __init__(self, framework: Framework, images: Images, *, strict: bool, size: int) -> None:
        self.own = images.own.notes()
        self.strict = strict
        self.problems: list[str] = []
        self.left_out: list[str] = []
        self.after: list[Callable[[], None]] = []
        self._framework = framework
        self._images = images
        # Whether whatever was saved has to be asked for here, and not by another rank.
        is_spread = bool(self.own.get("spread"))
        self._is_alone = size == 1 or is_spread
        if is_spread:  # no layout: any tensor may be in any file
            images.open_others()
        self._wanted: list[tuple[Leaf, list[Part]]] = []
        self._asked: set[str] = set()
        self._parts: dict[str, list[Part]] = {}
        self._children: dict[str, list[str]] = {}
        self._collect()

    def leave_out(self, sentence: str) -> None:
        """What does not fit: an error when all has to, else it is told."""
        (self.problems if self.strict else self.left_out).append(sentence)

    def entry(self, key: str) -> notes.Json | None:
        """What was saved of that entry beside its tensors; None: nothing, and it is told."""
        entries = cast("dict[str, notes.Json]", self.own.get("entries", {}))
        if key not in entries:
            self.leave_out(f"{key} was not saved")
            return None
        return entries[key]

    def whole(self, key: str) -> Box | None:
        """The whole tensor of that name, as far as it was saved in what is at hand."""
        parts = self._parts_of(key)
        if not parts:
            return None
        box = parts[0].box
        return Box(box.dtype, box.whole, (0,) * len(box.whole), box.whole)

    def names(self) -> list[str]:
        """Of all tensors in the images that are open."""
        return sorted(self._parts)

    def children(self, parent: str) -> list[str]:
        """The saved tensors `parent.NAME`, as NAME."""
        return self._children.get(parent, [])

    def want(self, leaf: Leaf) -> bool:
        """`leaf.memory` shall be filled. False: it cannot be, and that is told."""
        self._asked.add(leaf.key)
        parts = self._parts_of(leaf.key)
        if not parts:
            self.leave_out(f"{leaf.key} was not saved")
            return False
        saved, wanted = parts[0].box, leaf.box
        if saved.dtype != wanted.dtype:
            self.leave_out(f"{leaf.key} was saved as {saved.dtype}, not {wanted.dtype}")
            return False
        chosen = _cover(parts, wanted)
        if chosen is None and self._open_others():
            parts = self._parts_of(leaf.key)
            chosen = _cover(parts, wanted)
        whole = parts[0].box.whole
        if whole != wanted.whole:
            self.leave_out(f"{leaf.key} was saved as {list(whole)}, not {list(wanted.whole)}")
            return False
        if chosen is None:
            self.problems.append(f"not all of {leaf.key} was saved in what is at hand")
            return False
        self._wanted.append((leaf, chosen))
        return True

    def tensors(self, live: dict[str, object]) -> Callable[[str], object]:
        """Makes and wants the tensor of a name, cut as the one in `live` is."""

        def tensor(name: str) -> object:
            box = self.whole(name)
            if box is None:
                self.problems.append(f"{name} was not saved")
                return None
            made = self._framework.tensor_for(box, live.get(name))
            self.want(self._framework.target(name, made))
            return made

        return tensor

    def check(self, where: str) -> None:
        """Raises when something that has to fit does not; nothing was touched then."""
        if not self.strict and not self.problems and self._asked and not self._wanted:
            self.problems.append("none of its tensors is in the state")
        if not self.problems:
            return
        raise CheckpointError(
            what=f"the checkpoint of step {self.own.get('step')} does not fit the state",
            where=where,
            why=_shortened(self.problems),
            fix="make the state as it was saved, or leave out what does not fit with strict=False",
        )

    def copy(self) -> None:
        asked: dict[int, tuple[Source, list[tuple[int, int]], list[Region]]] = {}
        for leaf, parts in self._wanted:
            for part in parts:
                key = id(part.source)
                _source, wholes, regions = asked.setdefault(key, (part.source, [], []))
                if (part.box.shape, part.box.offset) == (leaf.box.shape, leaf.box.offset):
                    wholes.append((part.index, _address(leaf)))
                else:
                    regions.append(_region(leaf, part))
        for source, wholes, regions in asked.values():
            source.restore(wholes, regions)
        for leaf, _parts in self._wanted:
            if leaf.live is not None:
                self._framework.write_back(leaf)

    def finish(self) -> None:
        """What needs the tensors: objects that load their state by themselves."""
        for action in self.after:
            action()

    def told(self) -> str:
        """What was left out, as the end of a sentence."""
        return f"; left out: {_shortened(self.left_out)}" if self.left_out else ""

    def fill_value(self, key: str, value: object, state: State) -> None:
        """An entry that is no framework's own: containers, values, what loads its state itself."""
        saved = self.entry(key)
        if saved is None:
            return
        live = planning.tensors_in(self._framework, key, value)
        decoded = notes.decode(saved, tensor=self.tensors(live))
        if planning.has_state(value):
            self.after.append(lambda: planning.load(value, decoded))
        else:
            self.after.append(lambda: state.__setitem__(key, decoded))

    def leave_rest(self, state: State) -> None:
        """What was saved and nobody asked for; entries that are not in the state as a whole.

        In a world of several ranks another one may have asked for what only some images have.
        """
        names = set(self._images.own.boxes)
        for source in self._images.opened:
            names = names | set(source.boxes) if self._is_alone else names & set(source.boxes)
        entries = cast("dict[str, object]", self.own.get("entries", {}))
        unknown = {key: 0 for key in entries if key not in state}
        for name in sorted(names - self._asked):
            known = (key for key in (*state, *entries) if name == key or name.startswith(f"{key}."))
            entry = next(known, name.split(".", 1)[0])
            if entry in state:
                self.leave_out(f"{name} was saved, and the state has no such tensor")
            else:
                unknown[entry] = unknown.get(entry, 0) + 1
        for entry, count in sorted(unknown.items()):
            tensors = f" with {count} tensors" if count else ""
            self.leave_out(f"{entry} was saved{tensors}, and the state has no such entry")

    def _open_others(self) -> bool:
        if not self._images.open_others():
            return False
        self._collect()
        return True

    def _parts_of(self, key: str) -> list[Part]:
        if key not in self._parts:
            self._open_others()
        return self._parts.get(key, [])

    def _collect(self) -> None:
        self._parts = {}
        self._children = {}
        for source in self._images.opened:
            for key, (index, box) in source.boxes.items():
                self._parts.setdefault(key, []).append(Part(source, index, box))
        for key in self._parts:
            parent, _dot, name = key.rpartition(".")
            self._children.setdefault(parent, []).append(name)
        shapes = cast("dict[str, list[int]]", self.own.get("shapes", {}))
        for key, parts in self._parts.items():
            # One part of a sharded tensor does not tell how large the whole one is.
            whole = tuple(shapes.get(key) or _ends(parts))
            self._parts[key] = [
                Part(part.source, part.index, _within(part.box, whole)) for part in parts
            ]


def _region(leaf: Leaf, part: Part) -> Region:
    begin, extent = _shared(part.box, leaf.box)
    return (
        part.index,
        tuple(b - o for b, o in zip(begin, part.box.offset, strict=True)),
        extent,
        _address(leaf),
        leaf.box.shape,
        tuple(b - o for b, o in zip(begin, leaf.box.offset, strict=True)),
    )


def _cover(parts: list[Part], wanted: Box) -> list[Part] | None:
    """Parts that together make up all of `wanted`, each element once; None: they do not."""
    if len(parts[0].box.shape) != len(wanted.shape):
        return None
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    chosen: list[Part] = []
    volume = 0
    for part in parts:
        box = part.box
        if box.whole != wanted.whole:
            return None
        if (box.shape, box.offset) == (wanted.shape, wanted.offset):
            return [part]
        extent = _shared(box, wanted)[1]
        if (box.offset, box.shape) in seen or not prod(extent):
            continue  # replicas hold the same box; the nearest comes first
        seen.add((box.offset, box.shape))
        chosen.append(part)
        volume += prod(extent)
    return chosen if volume == prod(wanted.shape) else None


def _shared(a: Box, b: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Begin and extent of what two boxes of one tensor share."""
    begin = tuple(max(x, y) for x, y in zip(a.offset, b.offset, strict=True))
    ends = (
        min(ao + az, bo + bz)
        for ao, az, bo, bz in zip(a.offset, a.shape, b.offset, b.shape, strict=True)
    )
    return begin, tuple(max(0, end - at) for end, at in zip(ends, begin, strict=True))


def _ends(parts: list[Part]) -> list[int]:
    ends = [0] * len(parts[0].box.shape)
    for part in parts:
        for axis, (at, size) in enumerate(zip(part.box.offset, part.box.shape, strict=True)):
            ends[axis] = max(ends[axis], at + size)
    return ends


def _within(box: Box, whole: tuple[int, ...]) -> Box:
    return Box(box.dtype, box.shape, box.offset, whole)


def _shortened(sentences: list[str]) -> str:
    more = len(sentences) - _TOLD_MAX
    return "; ".join(sentences[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def _address(leaf: Leaf) -> int:
    return cast("_Memory", leaf.memory).data_ptr()


class _Memory(Protocol):
    def data_ptr(self) -> int: ...
