"""Checks of the arguments of public calls. Each function returns the value, or raises.

    keep = count("Checkpointer", "keep", keep, least=1)

Every wrong argument is an `ArgumentError`: a wrong type, a value out of range, a NaN.
"""

import functools
import operator
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, ParamSpec, TypeVar, cast

from paceline.errors import ArgumentError

T = TypeVar("T")
P = ParamSpec("P")

COUNT_MAX = 2**53 - 1
"""The largest number of samples, steps and seeds: whole numbers up to it are exact in JSON."""


# Hints for arguments that belong to other libraries: one table for each kind of class.
OF_LOADERS = {
    "batch_size": "use global_batch= of the loader: the samples of a step over all ranks",
    "global_batch": "use global_batch= of ElasticLoader, or batch= or batch_size= of LeasedLoader",
    "num_workers": "use num_workers= of paceline.torch's loaders",
}
OF_DATA_SETS = {
    "batch_size": "use global_batch=, the samples of a step over all ranks",
    "shuffle": "ElasticDataset(dataset, shuffle=True, seed=7)",
    "seed": "ElasticDataset(dataset, shuffle=True, seed=7)",
    "generator": "ElasticDataset(dataset, shuffle=True, seed=7)",
    "sampler": "ElasticDataset(dataset, sampler=…)",
    "batch_sampler": "ElasticDataset(dataset, batch_sampler=…), without global_batch",
    "fingerprint": "ElasticDataset(dataset, fingerprint=…)",
}


def known(
    where: str, *, more: Iterable[str] = (), hints: Mapping[str, str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: an unknown keyword of `where` raises an `ArgumentError` with a hint.

    `more` are the keywords that the function takes through `**steps`.
    """

    def around(function: Callable[P, T]) -> Callable[P, T]:
        code = cast("Any", function).__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = {*code.co_varnames[:count], *more}

        @functools.wraps(function)
        def checked(*given: P.args, **named: P.kwargs) -> T:
            for name in named:
                if name not in names:
                    raise ArgumentError(
                        what=f"{where} has no argument {name}",
                        where=where,
                        why="it has no argument of this name, so the value would have no effect",
                        fix=(hints or {}).get(name, f"leave {name} out, or look at help({where})"),
                    )
            return function(*given, **named)

        return checked

    return around


def refuse(where: str, name: str, value: object, wanted: str, fix: str) -> ArgumentError:
    """The error for an argument of `where`; `wanted` says which values are allowed."""
    return ArgumentError(
        what=f"{name}={_shown(value)} is not allowed",
        where=where,
        why=f"it has to be {wanted}",
        fix=fix,
    )


def count(
    where: str, name: str, value: object, *, least: int = 1, most: int = COUNT_MAX, fix: str = ""
) -> int:
    """A whole number, also NumPy's integers. True and False are refused."""
    number = whole(value)
    if number is None or not least <= number <= most:
        wanted = f"a whole number, {least} or more"
        if most != COUNT_MAX or (number is not None and number > most):
            wanted = f"a whole number from {least} to {most:,}"
        likely = int(value) if isinstance(value, str) and value.isdecimal() else 0
        likely = likely if max(least, 1) <= likely <= most else max(least, 1)
        raise refuse(where, name, value, wanted, fix or f"{name}={likely}")
    return number


def whole(value: object) -> int | None:
    """`value` as an int; None if it is not a whole number."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(cast("Any", value))
    except TypeError:
        return None


def real(value: object) -> float | None:
    """`value` as a float; None for text, True, False, complex numbers and NaN."""
    if isinstance(value, (bool, str, bytes, complex)) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        return None
    return None if number != number else number


def number(
    where: str, name: str, value: object, *, least: float, most: float, wanted: str, fix: str
) -> float:
    """A number from `least` to `most`."""
    found = real(value)
    if found is None or not least <= found <= most:
        raise refuse(where, name, value, wanted, fix)
    return found


def flag(where: str, name: str, value: object) -> bool:
    """True or False. Values that Python only treats as true or false, as 1 or "", are refused."""
    if isinstance(value, bool):
        return value
    raise refuse(where, name, value, "True or False", f"{name}=True")


def text(where: str, name: str, value: object, *, bytes_max: int, least: int = 1) -> str:
    """A text on one line, of `least` to `bytes_max` bytes."""
    is_text = isinstance(value, str) and not any(end in value for end in "\n\r\0")
    if not is_text or not least <= len(str(value).encode(errors="replace")) <= bytes_max:
        wanted = f"a text of {least} to {bytes_max} bytes on one line"
        raise refuse(where, name, value, wanted, f'{name}="train"')
    return str(value)


def one_of(where: str, name: str, value: T, allowed: Iterable[T]) -> T:
    """Return `value` if it is in `allowed`, else raise."""
    known = list(allowed)
    if not any(type(value) is type(one) and value == one for one in known):
        names = [f'"{one}"' if isinstance(one, str) else repr(one) for one in known]
        wanted = f"{', '.join(names[:-1])} or {names[-1]}"
        raise refuse(where, name, value, wanted, f"{name}={known[0]!r}")
    return value


def callback(where: str, name: str, value: T) -> T:
    """A function, or None."""
    if value is not None and not callable(value):
        raise refuse(where, name, value, "a function", f"leave {name} out")
    return value


def path(where: str, name: str, value: object) -> str:
    """A path as text, from `str` or `os.PathLike`. Bytes and empty paths are refused."""
    given = value
    if isinstance(value, os.PathLike):
        given = os.fspath(cast("os.PathLike[str]", value))
    if not isinstance(given, str) or not given:
        raise refuse(where, name, value, "a text or a path, and not empty", f'{name}="runs/gpt"')
    return given


def texts(where: str, name: str, value: object, *, fix: str) -> list[str]:
    """Several texts. A single text is refused, because it would count as a list of letters."""
    several = [] if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) else value
    found = list(cast("Iterable[object]", several))
    if not found or not all(isinstance(one, str) and one for one in found):
        raise refuse(where, name, value, "a list of texts, and none of them empty", fix)
    return cast("list[str]", found)


def loss(where: str, value: object, name: str = "loss") -> float:
    """A loss as a float. NaN and infinity are allowed, because detectors look for them."""
    try:
        if not isinstance(value, (bool, str, bytes)):
            return float(cast("Any", value))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise refuse(where, name, value, "one number", f"{name}={name}.item()")


def state(where: str, value: object) -> MutableMapping[str, Any]:
    """The state of a save or a restore: a dict by name."""
    if not isinstance(value, MutableMapping):
        wanted = "a dict of what is saved, by name"
        raise refuse(where, "state", value, wanted, 'state={"model": model}')
    return cast("MutableMapping[str, Any]", value)


def timeout(where: str, value: object) -> float | None:
    """Seconds to wait, as a float. None and infinity return None: no limit."""
    if value is None:
        return None
    seconds = real(value)
    if seconds is None or seconds < 0:
        wanted = "a number of seconds, 0 or more, or None for no limit"
        raise refuse(where, "timeout", value, wanted, "timeout=60")
    return None if seconds > TIMEOUT_MAX else seconds


TIMEOUT_MAX = 1e9
"""Seconds, 31 years. A longer timeout is no limit."""


def _shown(value: object) -> str:
    """`value` for a message: on one line, and shortened. Tensors are not printed."""
    if value is None or isinstance(value, (str, bytes, int, float, complex, os.PathLike)):
        shown = repr(value)
        return shown if len(shown) <= 80 else f"{shown[:77]}..."
    return f"<{type(value).__module__}.{type(value).__qualname__}>".replace("<builtins.", "<")
