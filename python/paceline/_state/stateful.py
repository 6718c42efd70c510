"""Objects with `state_dict` and `load_state_dict`, such as schedulers and scalers."""

from typing import Protocol, cast


class Stateful(Protocol):
    def state_dict(self) -> object: ...
    def load_state_dict(self, state: object) -> object: ...


def has_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def load(value: object, decoded: object) -> None:
    cast("Stateful", value).load_state_dict(decoded)


def value_of(value: object) -> object:
    return cast("Stateful", value).state_dict() if has_state(value) else value


def holds_part(value: object) -> bool:
    """Whether an entry of the state is one pipeline stage, so that other ranks have the others."""
    return getattr(value, "holds_part", False) is True
