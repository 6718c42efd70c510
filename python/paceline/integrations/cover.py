"""Checks that boxes tile an array: each element of the array is in exactly one box."""

from collections.abc import Sequence
from math import prod

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offset and extent


def is_tiled(whole: tuple[int, ...], boxes: Sequence[Box]) -> bool:
    """Whether `boxes` tile an array of the shape `whole`. False if a box has other dimensions."""
    for offset, extent in boxes:
        if not len(offset) == len(extent) == len(whole):
            return False
        if any(
            at < 0 or size < 0 or at + size > end
            for at, size, end in zip(offset, extent, whole, strict=True)
        ):
            return False
    full = [box for box in boxes if prod(box[1])]
    return sum(prod(extent) for _offset, extent in full) == prod(whole) and not _overlap(full)


def _overlap(boxes: Sequence[Box]) -> bool:
    """Whether two of the boxes have an element in common."""
    if len(boxes) < 2:
        return False
    axes = range(len(boxes[0][0]))
    if not axes:
        return True  # two boxes of a tensor without dimensions
    # Sorted along the axis with the most different begins, few boxes overlap with the next one.
    axis = max(axes, key=lambda one: len({offset[one] for offset, _extent in boxes}))
    ordered = sorted(boxes, key=lambda box: box[0][axis])
    open_ones: list[Box] = []
    for box in ordered:
        begin = box[0][axis]
        open_ones = [one for one in open_ones if one[0][axis] + one[1][axis] > begin]
        if any(_share(one, box) for one in open_ones):
            return True
        open_ones.append(box)
    return False


def _share(one: Box, other: Box) -> bool:
    return all(
        a < b + d and b < a + c
        for a, c, b, d in zip(one[0], one[1], other[0], other[1], strict=True)
    )
