"""Python values beyond JSON, and instances of the script's classes: a closed set of kinds.

A class is found in the caller's state at the same place, else in a module that is already imported.
A file's name for a class imports nothing and runs no code of the class: enum members are looked up,
tuples are made by `tuple`, and fields are written into an empty object.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum, EnumMeta, Flag
from types import MemberDescriptorType, ModuleType
from typing import Any, cast

Json = object
Write = Callable[[object, str], Json]  # a value, and its path for messages ("" for a key)
Pairs = list[tuple[object, object]]

FACTORIES: dict[str, type] = {
    one.__name__: one for one in (int, float, complex, bool, str, bytes, list, dict, set, tuple)
}
# NumPy's scalar types whose values a Python number, text or bytes holds without loss.
NUMBERS = {"bool", "str_", "bytes_", "complex64", "complex128", "float16", "float32", "float64"}
NUMBERS |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class UnwritableError(TypeError):
    """A value of a known kind that JSON cannot hold. The text says why."""


def encode(value: object, where: str, write: Write) -> Json | None:
    """`value` as JSON; None if it is of no kind in this module."""
    kind = type(value)
    if isinstance(value, Enum):
        return {"$enum": [*_name_of(kind), str(value.name or ""), _plain(value, write)]}
    if kind is OrderedDict or kind is Counter:
        name = "$ordered" if kind is OrderedDict else "$counter"
        return {name: _pairs(cast("dict[object, object]", value), where, write)}
    if kind is defaultdict:
        factory = cast("Any", value).default_factory
        is_known = factory is None or FACTORIES.get(getattr(factory, "__name__", "")) is factory
        name = None if factory is None else factory.__name__ if is_known else "?"
        return {"$defaultdict": [name, _pairs(cast("dict[object, object]", value), where, write)]}
    if kind is deque:
        items = [write(one, f"{where}.{i}") for i, one in enumerate(cast("deque[object]", value))]
        return {"$deque": [cast("deque[object]", value).maxlen, items]}
    if isinstance(value, tuple) and _tuple_fields(kind) is not None:
        names = cast("tuple[str, ...]", _tuple_fields(kind))
        pairs = zip(names, cast("tuple[object, ...]", value), strict=True)
        return {"$namedtuple": [*_name_of(kind), [[n, write(v, f"{where}.{n}")] for n, v in pairs]]}
    if is_dataclass(value) and not isinstance(value, (Mapping, type)):
        names = [field.name for field in fields(value)]
        more = sorted(set(getattr(value, "__dict__", {})) - set(names))
        if more:
            raise UnwritableError(f"a dataclass with more than its fields: {', '.join(more)}")
        found = [[n, write(getattr(value, n), f"{where}.{n}")] for n in names if hasattr(value, n)]
        return {"$dataclass": [*_name_of(kind), found]}
    return _encode_number(value, write)


def _encode_number(value: object, write: Write) -> Json | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return None
    number = cast("Any", value)
    name = number.dtype.type.__name__ if number.dtype.kind in "US" else number.dtype.name
    return {"$number": [name, write(number.item(), "")]} if name in NUMBERS else None


def _plain(member: Enum, write: Write) -> Json:
    try:
        return write(member.value, "")
    except TypeError:  # for readers without the class; with it the name suffices
        return None


def _pairs(value: Mapping[object, object], where: str, write: Write) -> Json:
    return [[write(key, ""), write(item, f"{where}.{key}")] for key, item in value.items()]


def _name_of(kind: type) -> list[str]:
    return [kind.__module__, kind.__qualname__]


# ---- reading; `pairs` and `items` are already decoded ----


def default_dict(name: object, pairs: Pairs, there: object) -> object:
    """None: the function that makes the default values is unknown."""
    if name == "?":
        if not isinstance(there, defaultdict):
            return None
        return defaultdict(cast("Any", there).default_factory, pairs)
    return defaultdict(None if name is None else FACTORIES[str(name)], pairs)


def number(name: object, value: object) -> object:
    """The value as NumPy's scalar; `value` itself if NumPy is not imported."""
    if name not in NUMBERS:
        raise ValueError(f"{name} is no number of NumPy's")
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    kind = numpy.dtype(str(name))
    if kind.kind in "iu":
        bounds = numpy.iinfo(kind)
        if not bounds.min <= cast("int", value) <= bounds.max:  # NumPy 1 would wrap the value
            raise ValueError(f"{value} is no {name}")
    return kind.type(value)


def member(module: str, name: str, text: str, value: object, there: object) -> object:
    """A member of an enum; None if the class or the member does not exist."""
    live = type(there)
    is_live = isinstance(there, Enum) and live.__qualname__ == name
    kind = live if is_live else loaded_class(module, name)
    if kind is None or not issubclass(type(kind), EnumMeta):
        return None
    members = cast("dict[str, object]", _static(kind, "_member_map_"))
    if text in members:
        return members[text]
    # A combination of flags has no name of its own.
    is_ours = type(kind) is EnumMeta and issubclass(kind, Flag)
    own = getattr(_static(kind, "_missing_"), "__func__", None) if is_ours else None
    is_plain = own is not None and own is getattr(Flag.__dict__["_missing_"], "__func__", None)
    return cast("Any", kind)(value) if is_plain and type(value) is int else None


def named_tuple(module: str, name: str, pairs: Pairs, there: object) -> object:
    """None if there is no such class, or it has other fields."""
    names = tuple(key for key, _value in pairs)
    for kind in (type(there), loaded_class(module, name)):
        if kind is not None and issubclass(kind, tuple) and _tuple_fields(kind) == names:
            return tuple.__new__(kind, [value for _name, value in pairs])
    return None


def data_class(module: str, name: str, pairs: Pairs, there: object) -> object:
    """None if there is no such class, it has other fields, or its code would run."""
    names = {key for key, _value in pairs}
    for kind in (type(there), loaded_class(module, name)):
        if kind is None or not names <= _data_fields(kind):
            continue
        # A file must not decide that a `__del__` runs.
        if kind is not type(there) and _static(kind, "__del__") is not None:
            continue
        try:
            made = object.__new__(kind)
        except TypeError:  # an abstract class, or one derived from a built-in type
            continue
        if all(_set_field(made, str(key), value) for key, value in pairs):
            return made
    return None


def _set_field(made: object, name: str, value: object) -> bool:
    slot = _static(type(made), name)
    if type(slot) is MemberDescriptorType:
        slot.__set__(made, value)
        return True
    try:
        object.__getattribute__(made, "__dict__")[name] = value
    except AttributeError:
        return False
    return True


def loaded_class(module: str, name: str) -> type | None:
    """A class of an imported module. Looks in dicts only, because an attribute access on a
    module may import another one.
    """
    found: object = sys.modules.get(module)
    for part in name.split("."):
        if issubclass(type(found), ModuleType):
            found = ModuleType.__getattribute__(cast("ModuleType", found), "__dict__").get(part)
        elif issubclass(type(found), type):
            found = type.__getattribute__(cast("type", found), "__dict__").get(part)
        else:
            return None
    return cast("type", found) if issubclass(type(found), type) else None


def _static(kind: type, name: str) -> object:
    for one in type.__getattribute__(kind, "__mro__"):
        held = type.__getattribute__(one, "__dict__")
        if name in held:
            return held[name]
    return None


def _tuple_fields(kind: type) -> tuple[str, ...] | None:
    names = _static(kind, "_fields") if issubclass(kind, tuple) else None
    if type(names) is not tuple or not all(type(one) is str for one in cast("Any", names)):
        return None
    return cast("tuple[str, ...]", names)


def _data_fields(kind: type) -> set[object]:
    found = _static(kind, "__dataclass_fields__")
    if type(found) is not dict:
        return set()
    listed = cast("dict[object, object]", found)
    return {key for key, one in listed.items() if type(one) is Field}
