"""A digest of rows that does not depend on their order, or on how they are cut into parts.

Each row gets two hashes of 64 bits; the digest is their sums modulo 2^64. Digests of parts add up
to the digest of the epoch. It tells other content from the same content; it withstands no attacker.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, cast

import numpy
import pyarrow
import pyarrow.types as types

from paceline.receiver.refusal import Refusal

Words = Any  # numpy array of uint64

_LONG = 48  # bytes: longer values are hashed one by one, which is faster for them
_ROWS = 2048  # at once, so that what is between stays in the cache
_FACTOR = numpy.uint64(0x9E3779B97F4A7C15)
_NULL = numpy.uint64(0x5851F42D4C957F2D)
_SALTS = (numpy.uint64(0xD6E8FEB86659FD93), numpy.uint64(0xA0761D6478BD642F))
ZERO = "0" * 32
# A row of nulls takes no bytes in a message, and as many as its size says when it is read.
FIXED_LIST_MAX = 65_536


def _mix(words: Words) -> Words:
    """splitmix64, which is a bijection."""
    words = words + _FACTOR
    words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return words ^ (words >> numpy.uint64(31))


_BYTES = _mix(numpy.arange(256, dtype=numpy.uint64))
_powers = numpy.ones(1, dtype=numpy.uint64)


def digest_of(batch: Any) -> str:
    """The digest of a record batch: 32 hexadecimal digits."""
    return added(_digest_of_few(batch.slice(begin, _ROWS))
                 for begin in range(0, batch.num_rows, _ROWS))


def _digest_of_few(batch: Any) -> str:
    rows = numpy.zeros(batch.num_rows, dtype=numpy.uint64)
    for place, column in enumerate(batch.columns):
        rows += _mix(_hashes(column) + _place(place))
    sums = [int((_mix(rows ^ salt)).sum(dtype=numpy.uint64)) for salt in _SALTS]
    return "".join(f"{one:016x}" for one in sums)


def added(digests: Iterable[str]) -> str:
    """The digest of all rows together."""
    sums = [0, 0]
    for digest in digests:
        for place in (0, 1):
            sums[place] += int(digest[16 * place:16 * place + 16], 16)
    return "".join(f"{one % 2**64:016x}" for one in sums)


def must_be_possible(kind: Any) -> None:
    """Raise Refusal for a type that has no digest."""
    if types.is_struct(kind):
        for place in range(kind.num_fields):
            must_be_possible(kind.field(place).type)
    elif _is_list(kind):
        if types.is_fixed_size_list(kind) and kind.list_size > FIXED_LIST_MAX:
            raise Refusal(
                what=f"columns of the type {kind} are not possible",
                where="the part's columns",
                why=f"a list of a fixed size has at most {FIXED_LIST_MAX} values here",
                fix="write a list without a fixed size")
        must_be_possible(kind.value_type)
    elif types.is_map(kind):
        must_be_possible(kind.key_type)
        must_be_possible(kind.item_type)
    elif not (types.is_null(kind) or _is_bytes(kind) or _is_fixed(kind)):
        raise Refusal(
            what=f"columns of the type {kind} are not possible",
            where="the part's columns",
            why="the receiver has no digest for them",
            fix="write plain values, strings, bytes, lists, structs or maps")


def _hashes(array: Any) -> Words:
    """A hash for each value of an array."""
    kind = array.type
    if types.is_null(kind):
        return numpy.full(len(array), _NULL)
    if types.is_boolean(kind):
        found = array.cast(pyarrow.uint8())
        hashes = _mix(_fixed_words(found))
    elif types.is_struct(kind):
        hashes = numpy.zeros(len(array), dtype=numpy.uint64)
        for place in range(kind.num_fields):
            hashes += _mix(_hashes(array.field(place)) + _place(place))
    elif types.is_map(kind):
        offsets = _offsets(array)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        items = (array.keys.slice(first, count), array.items.slice(first, count))
        found = _mix(_hashes(items[0])) + _hashes(items[1])
        hashes = _of_runs(_mix(found), offsets - first)
    elif types.is_fixed_size_list(kind):
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        hashes = _of_runs(_hashes(values), _steps(len(array), size))
    elif _is_list(kind):
        hashes = _of_lists(array)
    elif _is_bytes(kind):
        hashes = _of_bytes(array)
    elif kind.bit_width not in (8, 16, 32, 64):
        width = kind.bit_width // 8
        data = _buffer(array, width)
        hashes = _of_runs(_BYTES[data], _steps(len(array), width))
    else:
        hashes = _mix(_fixed_words(array))
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        hashes = numpy.where(valid, hashes, _NULL)
    return hashes


def _place(number: int) -> Any:
    return numpy.uint64(number * int(_FACTOR) % 2**64)


def _is_list(kind: Any) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_bytes(kind: Any) -> bool:
    return (types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
            or types.is_large_binary(kind))


def _is_fixed(kind: Any) -> bool:
    return (types.is_primitive(kind) or types.is_decimal(kind)
            or types.is_fixed_size_binary(kind))


def _buffer(array: Any, width: int) -> Any:
    """The bytes of an array of fixed width."""
    data = numpy.frombuffer(array.buffers()[1], dtype=numpy.uint8) if len(array) else (
        numpy.zeros(0, dtype=numpy.uint8))
    return data[array.offset * width:(array.offset + len(array)) * width]


def _fixed_words(array: Any) -> Words:
    width = array.type.bit_width // 8
    return _buffer(array, width).view(f"u{width}").astype(numpy.uint64)


def _steps(count: int, size: int) -> Any:
    return numpy.arange(count + 1, dtype=numpy.int64) * size


def _offsets(array: Any) -> Any:
    """Where each run begins among all values, and where the last one ends."""
    wide = types.is_large_string(array.type) or types.is_large_binary(array.type) or (
        types.is_large_list(array.type))
    if not len(array):
        return numpy.zeros(1, dtype=numpy.int64)
    found = numpy.frombuffer(array.buffers()[1], dtype=numpy.int64 if wide else numpy.int32)
    return found[array.offset:array.offset + len(array) + 1].astype(numpy.int64)


def _of_lists(array: Any) -> Words:
    offsets = _offsets(array)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return _of_runs(_hashes(values), offsets - offsets[0])


def _of_bytes(array: Any) -> Words:
    offsets = _offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    buffer = array.buffers()[2]
    data = numpy.zeros(0, dtype=numpy.uint8) if buffer is None else (
        numpy.frombuffer(buffer, dtype=numpy.uint8)[first:last])
    offsets = offsets - first
    long = numpy.flatnonzero(numpy.diff(offsets) > _LONG)
    if not len(long):
        return _of_runs(_BYTES[data], offsets)
    lengths = numpy.diff(offsets)
    is_short = numpy.repeat(lengths <= _LONG, lengths)
    lengths[long] = 0
    hashes = _of_runs(_BYTES[data[is_short]], numpy.concatenate(([0], numpy.cumsum(lengths))))
    values, borders = memoryview(cast("Any", data)), offsets.tolist()
    digests = b"".join(
        hashlib.blake2b(values[borders[one]:borders[one + 1]], digest_size=8).digest()
        for one in long.tolist())
    hashes[long] = numpy.frombuffer(digests, dtype=numpy.uint64)
    return hashes


def _of_runs(values: Words, offsets: Any) -> Words:
    """A hash for each run of values, by a polynomial of their places in the run."""
    lengths = numpy.diff(offsets)
    places = numpy.arange(len(values), dtype=numpy.int64) - numpy.repeat(offsets[:-1], lengths)
    weighted = values * _powers_up_to(int(lengths.max(initial=0)))[places]
    total = numpy.concatenate((numpy.zeros(1, dtype=numpy.uint64), numpy.cumsum(weighted)))
    return _mix(total[offsets[1:]] - total[offsets[:-1]] + lengths.astype(numpy.uint64) * _FACTOR)


def _powers_up_to(count: int) -> Words:
    global _powers
    if len(_powers) < count:
        factors = numpy.full(max(count, 2 * len(_powers)), _FACTOR)
        factors[0] = 1
        _powers = numpy.cumprod(factors)
    return _powers
