"""Tensors that several ranks saved under one name as the same part of a whole, but not equal.

Unsharded tensors of one name with different shapes count as well.

Examples: pipeline stages whose layers have equal names on each rank, and statistics that each rank
keeps for itself. A world of another size cannot tell which rank's tensor is meant.
"""

import ctypes
from collections.abc import Iterator
from math import prod

from paceline._restore.images import Source

_BATCH_BYTES = 64 << 20
_Place = tuple[str, tuple[int, ...], tuple[int, ...]]


def differing(sources: list[Source]) -> set[str]:
    """Names of tensors that differ between these ranks. Compares bytes, so use it for images in
    memory.
    """
    first: dict[_Place, Source] = {}
    found = _of_other_shapes(sources)
    for source in sources:
        again: dict[int, tuple[Source, list[str]]] = {}
        for key, (_index, box) in source.boxes.items():
            other = first.setdefault((key, box.offset, box.shape), source)
            if other is not source:
                again.setdefault(id(other), (other, []))[1].append(key)
        for other, keys in again.values():
            for batch in _batches([key for key in keys if key not in found], source):
                mine, theirs = _content(source, batch), _content(other, batch)
                found |= {key for key in batch if mine[key] != theirs[key]}
    return found


def _of_other_shapes(sources: list[Source]) -> set[str]:
    """Names of unsharded tensors whose shapes differ between ranks."""
    shapes: dict[str, set[tuple[int, ...]]] = {}
    shards: set[str] = set()
    for source in sources:
        for key, (_index, box) in source.boxes.items():
            if not prod(box.shape):
                continue
            shapes.setdefault(key, set()).add(box.shape)
            if any(box.offset):
                shards.add(key)
    return {key for key, found in shapes.items() if len(found) > 1 and key not in shards}


def _batches(keys: list[str], source: Source) -> Iterator[list[str]]:
    """Batches of keys with 64 MiB of tensors together, or one larger tensor."""
    batch: list[str] = []
    size = 0
    for key in keys:
        if batch and size + source.sizes[key] > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += source.sizes[key]
    if batch:
        yield batch


def _content(source: Source, keys: list[str]) -> dict[str, bytes]:
    total = sum(source.sizes[key] for key in keys)
    buffer = bytearray(max(total, 1))
    begin = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    wholes: list[tuple[int, tuple[int, int]]] = []
    ends: dict[str, tuple[int, int]] = {}
    at = 0
    for key in keys:
        size = source.sizes[key]
        wholes.append((source.boxes[key][0], (begin + at, size)))
        ends[key] = (at, at + size)
        at += size
    source.restore(wholes, [])
    return {key: bytes(buffer[a:b]) for key, (a, b) in ends.items()}
