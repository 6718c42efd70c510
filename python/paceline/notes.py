"""Small Python state as typed JSON: no pickle, and what cannot be written is an error.

    text = encode({"lr": 0.1, "betas": (0.9, 0.999)}, where="optimizer")
    decode(text)  # the same value: tuples stay tuples, bytes stay bytes

JSON has fewer types than Python; the others are objects with one key that begins with `$`.
docs/formats/notes.md lists them.
"""

import base64
import math
from collections.abc import Callable, Mapping
from typing import cast

Json = object


class NotesError(TypeError):
    """A value that cannot be written, or a text that is no such value; the message says where."""


def encode(
    value: object, *, where: str, tensor: Callable[[str, object], Json | None] | None = None
) -> Json:
    """`value` as JSON. `tensor(where, value)` gives the JSON for what it knows, else None."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if tensor is not None:
        known = tensor(where, value)
        if known is not None:
            return known
    if type(value) is int:
        return value if -(2**53) <= value <= 2**53 else {"$int": str(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, complex):
        return {"$complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, Mapping):
        return _encode_dict(cast("Mapping[object, object]", value), where, tensor)
    if type(value) is list or type(value) is tuple or isinstance(value, (set, frozenset)):
        items = list(cast("list[object]", value))
        if isinstance(value, (set, frozenset)):
            items.sort(key=repr)
        encoded = [
            encode(item, where=f"{where}.{i}", tensor=tensor) for i, item in enumerate(items)
        ]
        return encoded if type(value) is list else {f"${type(value).__name__}": encoded}
    raise NotesError(
        f"cannot write {where}: a {type(value).__module__}.{type(value).__qualname__} is no plain "
        "value; put numbers, text, bytes, tensors, lists and dicts of them into the state"
    )


def _encode_dict(
    value: Mapping[object, object],
    where: str,
    tensor: Callable[[str, object], Json | None] | None,
) -> Json:
    # Any mapping comes back as a dict. A tensor's name is the way to it, whatever the keys are.
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {
            cast("str", key): encode(item, where=f"{where}.{key}", tensor=tensor)
            for key, item in value.items()
        }
    return {
        "$dict": [
            [
                encode(key, where=f"{where}, a key"),
                encode(item, where=f"{where}.{key}", tensor=tensor),
            ]
            for key, item in value.items()
        ]
    }


def decode(
    value: Json, *, tensor: Callable[[str, object], object] | None = None, there: object = None
) -> object:
    """What `encode` was given. `tensor(key, stands)` gives what `{"$tensor": key}` stands for.

    `there` is what the caller has in the place of the value; `stands` is the part of it in the
    place of that tensor, or None.
    """
    if isinstance(value, list):
        return [
            decode(item, tensor=tensor, there=_part(there, i))
            for i, item in enumerate(cast("list[Json]", value))
        ]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Json]", value)
    if len(fields) != 1 or not next(iter(fields)).startswith("$"):
        return {
            key: decode(item, tensor=tensor, there=_part(there, key))
            for key, item in fields.items()
        }
    kind, inner = next(iter(fields.items()))
    try:
        return _decode_typed(kind, inner, tensor, there)
    except (ValueError, TypeError) as error:
        raise NotesError(f"no {kind} is written like that: {error}") from error


def _part(there: object, key: object) -> object:
    if isinstance(there, Mapping):
        return cast("Mapping[object, object]", there).get(key)
    if isinstance(there, (list, tuple)) and isinstance(key, int):
        items = cast("list[object]", there)
        return items[key] if key < len(items) else None
    return None


def _decode_typed(
    kind: str, inner: Json, tensor: Callable[[str, object], object] | None, there: object
) -> object:
    if kind == "$tensor" and tensor is not None:
        return tensor(str(inner), there)
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
        found: dict[object, object] = {}
        for key, item in cast("list[list[Json]]", inner):
            name = decode(key, tensor=tensor)
            found[name] = decode(item, tensor=tensor, there=_part(there, name))
        return found
    if kind in ("$tuple", "$set", "$frozenset"):
        items = [
            decode(item, tensor=tensor, there=_part(there, i))
            for i, item in enumerate(cast("list[Json]", inner))
        ]
        return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[kind](items)
    raise ValueError("it is unknown")
