"""Objects with `state_dict` and `load_state_dict`, such as schedulers and scalers."""

import contextlib
from collections.abc import Iterator
from typing import Protocol, cast

from paceline.errors import CheckpointError, PacelineError


class Stateful(Protocol):
    def state_dict(self) -> object: ...
    def load_state_dict(self, state: object) -> object: ...


def has_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def load(key: str, value: object, decoded: object) -> None:
    with telling(key, value):
        cast("Stateful", value).load_state_dict(decoded)


@contextlib.contextmanager
def telling(key: str, value: object) -> Iterator[None]:
    """Raise CheckpointError if the code of the entry `key` fails to load what was saved."""
    try:
        yield
    except PacelineError:
        raise
    except Exception as error:
        raise CheckpointError(
            what=f"{key} did not load what was saved of it",
            where=f"load_state_dict of a {type(value).__module__}.{type(value).__qualname__}",
            why=f"{type(error).__name__}: {error}",
            fix=f"make {key} as it was when it was saved; or leave it out of the state, with "
            "strict=False. Other entries are restored by now",
        ) from error


def value_of(value: object) -> object:
    return cast("Stateful", value).state_dict() if has_state(value) else value


def holds_part(value: object) -> bool:
    """Whether an entry of the state is one pipeline stage, so that other ranks have the others."""
    return getattr(value, "holds_part", False) is True


def holds_nothing(value: object) -> bool:
    """Whether an entry of the state is that of a rank without a part of the model."""
    return getattr(value, "holds_nothing", False) is True


def holds_copies(value: object) -> bool:
    """Whether a module only repeats weights that other modules save under names of their own."""
    return getattr(value, "holds_copies", False) is True
