"""Small Python state as typed JSON. No pickle; a value that JSON cannot hold is an error.

    text = encode({"lr": 0.1, "betas": (0.9, 0.999)}, where="optimizer")
    decode(text)  # the same value: tuples stay tuples, bytes stay bytes

JSON has fewer types than Python. The others are objects with one key that begins with `$`, listed
in docs/formats/notes.md.
"""

import base64
import json
import math
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from paceline._native import check_notes_size
from paceline._state import kinds

SCHEMA = "paceline.notes/1"
Json = object
Encode = Callable[[str, object], Json | None]  # the path of a value for messages, and the value
Decode = Callable[[str, Json, object], object]  # kind, JSON, the state's value there


class NotesError(TypeError):
    """A value that cannot be encoded, or text that cannot be decoded. The message says where.

    `fix` is what its owner can do, if that is known.
    """

    fix = ""


class _NestedError(NotesError):
    """A module, an optimizer or another object with a state_dict, inside a container."""

    def __init__(self, where: str, value: object) -> None:
        super().__init__(
            f"cannot write {where}: a {type(value).__module__}.{type(value).__qualname__} has a "
            "state_dict, and such objects may only be entries of the state itself"
        )
        name = where.replace(".", "_")
        self.fix = f'put it into the state under a name of its own: {{"{name}": …}}'


class NewerError(Exception):
    """Notes in a format of a newer paceline. The message names their version."""


def loads(text: bytes, *, rank: int) -> dict[str, Json]:
    """Parse a rank's notes. NotesError: malformed. NewerError: a newer paceline wrote them.

    loads(b'{"schema": "paceline.notes/1", "step": 3}', rank=0)["step"]  # 3
    """
    try:
        check_notes_size(text)
        found: object = json.loads(text)
    except (ValueError, RecursionError, RuntimeError) as error:
        raise NotesError(f"the notes of rank {rank} cannot be read: {error}") from error
    schema = cast("dict[str, Json]", found).get("schema") if isinstance(found, dict) else None
    if schema == SCHEMA:
        return cast("dict[str, Json]", found)
    if isinstance(schema, str) and re.fullmatch(r"paceline\.notes/[1-9]\d{0,8}", schema):
        raise NewerError(f"the notes of rank {rank} are {schema}, and this version reads {SCHEMA}")
    raise NotesError(f"the notes of rank {rank} are not of {SCHEMA}")


def encode(value: object, *, where: str, own: Encode | None = None) -> Json:
    """`value` as JSON. `own(where, value)` returns the JSON of further kinds, else None."""
    try:
        return _encode(value, where, own)
    except RecursionError as error:
        why = "it holds itself, or is nested too deep"
        raise NotesError(f"cannot write {where}: {why}") from error


def _encode(value: object, where: str, own: Encode | None) -> Json:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**53) <= cast("int", value) <= 2**53 else {"$int": str(value)}
    if kind is float:
        return value if math.isfinite(cast("float", value)) else {"$float": repr(value)}
    if own is not None:
        known = own(where, value)
        if known is not None:
            return known
    if kind is dict:
        return _encode_dict(cast("dict[object, object]", value), where, own)
    if kind is list or kind is tuple:
        items = enumerate(cast("list[object]", value))
        encoded = [_encode(item, f"{where}.{i}", own) for i, item in items]
        return encoded if kind is list else {"$tuple": encoded}

    def write(one: object, way: str) -> Json:
        return _encode(one, way, own) if way else _encode(one, f"{where}, a key", None)

    try:
        known = kinds.encode(value, where, write)
    except kinds.UnwritableError as error:
        raise NotesError(f"cannot write {where}: it is {error}") from error
    return _encode_base(value, where, own) if known is None else known


def _encode_base(value: object, where: str, own: Encode | None) -> Json:
    """Subclasses of Python's own types are decoded as these types."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, complex):
        return {"$complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, Mapping):
        return _encode_dict(cast("Mapping[object, object]", value), where, own)
    if isinstance(value, (set, frozenset)):
        items = sorted(cast("set[object]", value), key=repr)
        name = "$set" if isinstance(value, set) else "$frozenset"
        return {name: [_encode(item, f"{where}.{i}", own) for i, item in enumerate(items)]}
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        raise _NestedError(where, value)
    raise NotesError(
        f"cannot write {where}: a {type(value).__module__}.{type(value).__qualname__} is no plain "
        "value; put numbers, text, bytes, tensors, lists and dicts of them into the state"
    )


def _encode_dict(value: Mapping[object, object], where: str, own: Encode | None) -> Json:
    # A mapping is decoded as a dict. A tensor's name is its path, whatever types the keys have.
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {
            cast("str", key): _encode(item, f"{where}.{key}", own) for key, item in value.items()
        }
    return {
        "$dict": [
            [_encode(key, f"{where}, a key", None), _encode(item, f"{where}.{key}", own)]
            for key, item in value.items()
        ]
    }


def decode(
    value: Json,
    *,
    own: Decode | None = None,
    there: object = None,
    where: str = "",
    told: Callable[[str], None] | None = None,
) -> object:
    """The reverse of `encode`. `own(kind, written, stands)` decodes `{kind: written}`.

    `there` is the caller's value at that place, and `stands` the part of it that belongs to the
    kind. `told` gets one sentence for each class that is not available.
    """
    try:
        return _Reader(own, told or (lambda _sentence: None)).read(value, there, where)
    except RecursionError as error:
        raise NotesError("the notes are nested too deep") from error


@dataclass(frozen=True)
class _Reader:
    own: Decode | None
    told: Callable[[str], None]

    def read(self, value: Json, there: object, where: str) -> object:
        if isinstance(value, list):
            return self._items(value, there, where)
        if not isinstance(value, dict):
            return value
        items = cast("dict[str, Json]", value)
        if len(items) != 1 or not next(iter(items)).startswith("$"):
            self._told_of(dict, there, where)
            return {
                key: self.read(item, _part(there, key), f"{where}.{key}")
                for key, item in items.items()
            }
        kind, inner = next(iter(items.items()))
        try:
            return self._typed(kind, inner, there, where)
        except NotesError:
            raise
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise NotesError(f"no {kind} is written like that: {error}") from error

    def _items(self, value: Json, there: object, where: str) -> list[object]:
        items = enumerate(cast("list[Json]", value))
        return [self.read(item, _part(there, i), f"{where}.{i}") for i, item in items]

    def _pairs(self, value: Json, there: object, where: str) -> list[tuple[object, object]]:
        found: list[tuple[object, object]] = []
        for key, item in cast("list[list[Json]]", value):
            name = self.read(key, None, f"{where}, a key")
            found.append((name, self.read(item, _part(there, name), f"{where}.{name}")))
        return found

    def _typed(self, kind: str, inner: Json, there: object, where: str) -> object:
        if kind == "$int":
            return int(str(inner))
        if kind == "$float":
            return float(str(inner))
        if kind == "$bytes":
            return base64.b64decode(str(inner), validate=True)
        if kind == "$complex":
            real, imag = cast("list[str]", inner)
            return complex(float.fromhex(real), float.fromhex(imag))
        if kind == "$dict":
            self._told_of(dict, there, where)
            return dict(self._pairs(inner, there, where))
        if kind in ("$tuple", "$set", "$frozenset"):
            items = self._items(inner, there, where)
            return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[kind](items)
        if kind == "$ordered":
            return OrderedDict(self._pairs(inner, there, where))
        if kind == "$counter":
            return Counter(dict(cast("Any", self._pairs(inner, there, where))))
        if kind == "$deque":
            most, items = cast("tuple[int | None, Json]", inner)
            return deque(self._items(items, there, where), most)
        if kind in ("$defaultdict", "$number"):
            return self._python(kind, cast("list[Json]", inner), there, where)
        if kind in ("$enum", "$namedtuple", "$dataclass"):
            return self._classed(kind, cast("list[Json]", inner), there, where)
        if self.own is not None:
            return self.own(kind, inner, there)
        raise ValueError("it is unknown")

    def _python(self, kind: str, inner: list[Json], there: object, where: str) -> object:
        name, value = inner
        if kind == "$number":
            plain = self.read(value, None, where)
            found = kinds.number(name, plain)
            if found is plain:
                self.told(f"{where} was a numpy.{name}: NumPy is not imported")
            return found
        pairs = self._pairs(value, there, where)
        found = kinds.default_dict(name, pairs, there)
        if found is None:
            self.told(f"{where} was a defaultdict, and what makes its values is not known")
        return dict(pairs) if found is None else found

    def _classed(self, kind: str, inner: list[Json], there: object, where: str) -> object:
        module, name, *rest = inner
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a class has a module and a name")
        if kind == "$enum":
            text, value = rest
            plain = self.read(value, None, where)
            found = kinds.member(module, name, str(text), plain, there)
        else:
            (listed,) = rest
            stands = _fields_of(there)
            pairs = self._pairs(listed, stands, where)
            make = kinds.named_tuple if kind == "$namedtuple" else kinds.data_class
            found = make(module, name, pairs, there)
            plain = dict(pairs) if kind == "$dataclass" else tuple(value for _name, value in pairs)
        if found is None:
            self.told(f"{where} was a {module}.{name}, which is not imported here and is plain now")
            return plain
        return found

    def _told_of(self, kind: type, there: object, where: str) -> None:
        if isinstance(there, Mapping) and type(cast("object", there)) is not kind:
            name = type(cast("object", there)).__qualname__
            self.told(f"{where} is a {kind.__name__} now, and was a {name} in the state")


def _fields_of(there: object) -> object:
    names = getattr(type(there), "_fields", None)
    if isinstance(there, tuple) and isinstance(names, tuple):
        return dict(zip(cast("tuple[str, ...]", names), cast("tuple[object, ...]", there),
                        strict=False))
    if is_dataclass(there):
        return {field.name: getattr(there, field.name, None) for field in fields(there)}
    return None


def _part(there: object, key: object) -> object:
    if isinstance(there, dict):  # not `there[key]`: a defaultdict would insert the key
        return dict.get(cast("dict[object, object]", there), key)
    if isinstance(there, Mapping):
        return cast("Mapping[object, object]", there).get(key)
    if isinstance(there, (list, tuple, deque)) and type(key) is int:
        items = cast("list[object]", there)
        return items[key] if key < len(items) else None
    return None
