"""A sampler's own generators of random numbers, and their states as plain values.

found = find(sampler)           # torch's, NumPy's and Python's, also in nested samplers
before = [one.state() for one in found]
list(sampler)
for one, state in zip(found, before): one.load(state)
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_DEPTH_MAX = 6  # nesting of samplers


@dataclass(frozen=True, slots=True)
class OwnGenerator:
    """One generator. `way` is its path from the sampler, such as "sampler.generator"."""

    way: str
    kind: str  # "torch", "numpy", "numpy.legacy" or "python"
    generator: Any

    def state(self) -> dict[str, object]:
        return {"way": self.way, "kind": self.kind, "state": _plain(self._get())}

    def load(self, state: dict[str, object]) -> None:
        self._set(_unplain(state["state"]))

    def fits(self, state: object) -> bool:
        """Whether `load` accepts that state."""
        fields = cast("dict[str, object]", state) if isinstance(state, dict) else {}
        return fields.get("way") == self.way and fields.get("kind") == self.kind

    def _get(self) -> object:
        if self.kind == "torch":
            return bytes(self.generator.get_state().numpy()).hex()
        if self.kind == "numpy":
            return self.generator.bit_generator.state
        return self.generator.get_state(legacy=False) if "numpy" in self.kind else (
            self.generator.getstate())

    def _set(self, state: Any) -> None:
        if self.kind == "torch":
            torch: Any = sys.modules["torch"]
            taken = torch.frombuffer(bytearray(bytes.fromhex(state)), dtype=torch.uint8)
            self.generator.set_state(taken)
        elif self.kind == "numpy":
            self.generator.bit_generator.state = state
        elif self.kind == "python":
            version, words, spare = state
            self.generator.setstate((version, tuple(words), spare))
        else:
            self.generator.set_state(state)


def find(sampler: object) -> list[OwnGenerator]:
    """The generators in attributes of the sampler and of nested samplers, ordered by name."""
    return list(_find(sampler, "", set(), _DEPTH_MAX))


def samplers_in(sampler: object) -> list[object]:
    """The sampler and the samplers nested in it, such as the `sampler` of a BatchSampler."""
    found: list[object] = [sampler]
    for one in found:
        if len(found) > 64:
            break
        inner = (value for _, value in _attributes(one))
        known = {id(value) for value in found}
        found += [value for value in inner if _is_sampler(value) and id(value) not in known]
    return found


def _find(owner: object, way: str, seen: set[int], depth: int) -> Iterator[OwnGenerator]:
    if id(owner) in seen or depth == 0:
        return
    seen.add(id(owner))
    for name, value in _attributes(owner):
        here = f"{way}.{name}" if way else name
        kind = _kind(value)
        if kind and id(value) not in seen:
            seen.add(id(value))
            yield OwnGenerator(here, kind, value)
        elif _is_sampler(value):
            yield from _find(value, here, seen, depth - 1)


def _attributes(owner: object) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in sorted(cast("dict[str, object]", getattr(owner, "__dict__", {})).items()):
        if isinstance(value, (list, tuple)):
            several = cast("list[object]", value)
            found += [(f"{name}.{i}", one) for i, one in enumerate(several[:64])]
        else:
            found.append((name, value))
    return found


def _is_sampler(value: object) -> bool:
    """Whether it yields indices and is not a data set, which has items."""
    return (
        hasattr(value, "__dict__")
        and hasattr(type(value), "__iter__")
        and not hasattr(type(value), "__getitem__")
    )


def _kind(value: object) -> str:
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    if isinstance(value, random.Random):
        return "" if isinstance(value, random.SystemRandom) else "python"
    if torch is not None and isinstance(value, torch.Generator):
        return "torch"
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return "numpy"
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return "numpy.legacy"
    return ""


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[object]", value)]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return {"dtype": str(value.dtype), "array": value.tolist()}
    return value


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.keys() == {"dtype", "array"}:
            numpy: Any = sys.modules["numpy"]
            return numpy.array(fields["array"], dtype=fields["dtype"])
        return {key: _unplain(one) for key, one in fields.items()}
    return value
