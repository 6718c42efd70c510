"""Boxes of tensors in images, and the selection of boxes that cover a wanted box."""

from dataclasses import dataclass
from math import prod
from typing import Protocol, cast

from paceline._restore.images import Memory, Region, Source
from paceline._state.save_plan import Box, Leaf


@dataclass(frozen=True)
class Part:
    """A box of a tensor in an image."""

    source: Source
    index: int
    box: Box


def region(leaf: Leaf, part: Part) -> Region:
    begin, extent = shared(part.box, leaf.box)
    return (
        part.index,
        tuple(b - o for b, o in zip(begin, part.box.offset, strict=True)),
        extent,
        memory(leaf),
        leaf.box.shape,
        tuple(b - o for b, o in zip(begin, leaf.box.offset, strict=True)),
    )


def cover(parts: list[Part], wanted: Box) -> list[Part] | None:
    """Parts that cover `wanted`, each element once. None if no such parts exist."""
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
        extent = shared(box, wanted)[1]
        if (box.offset, box.shape) in seen or not prod(extent):
            continue  # a replica of the same box; the closest one comes first
        seen.add((box.offset, box.shape))
        chosen.append(part)
        volume += prod(extent)
    return chosen if volume == prod(wanted.shape) else None


def of_one_tensor(parts: list[Part], *, is_own: bool) -> list[Part]:
    """The parts of one tensor, if ranks saved unsharded tensors of this name in different shapes.

    That is the first part's tensor if `is_own`, else the tensor of the lowest rank. Parts that
    begin at different places are shards of one tensor, so all of them are returned.
    """
    shapes = {part.box.shape for part in parts if prod(part.box.shape)}
    if len(shapes) < 2 or any(any(part.box.offset) for part in parts):
        return parts
    like = parts[0] if is_own else min(parts, key=lambda part: part.source.rank)
    return [part for part in parts if part.box.shape == like.box.shape]


def shared(a: Box, b: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Begin and extent of the intersection of two boxes of one tensor."""
    begin = tuple(max(x, y) for x, y in zip(a.offset, b.offset, strict=True))
    ends = (
        min(ao + az, bo + bz)
        for ao, az, bo, bz in zip(a.offset, a.shape, b.offset, b.shape, strict=True)
    )
    return begin, tuple(max(0, end - at) for end, at in zip(ends, begin, strict=True))


def ends(parts: list[Part]) -> list[int]:
    ends = [0] * len(parts[0].box.shape)
    for part in parts:
        for axis, (at, size) in enumerate(zip(part.box.offset, part.box.shape, strict=True)):
            ends[axis] = max(ends[axis], at + size)
    return ends


def within(box: Box, whole: tuple[int, ...]) -> Box:
    return Box(box.dtype, box.shape, box.offset, whole)


def memory(leaf: Leaf) -> Memory:
    memory = cast("_Memory", leaf.memory)
    return memory.data_ptr(), memory.nbytes


class _Memory(Protocol):
    @property
    def nbytes(self) -> int: ...
    def data_ptr(self) -> int: ...
