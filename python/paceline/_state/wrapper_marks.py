"""Parts that torch's wrappers add to names: torch.compile, activation checkpoints, FSDP.

paceline saves names without them. Its older versions, and other programs, have saved them.
"""

from collections import Counter
from collections.abc import Iterable

_MARKS = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})


def without_marks(name: str) -> str:
    """`model.body._orig_mod.weight` as `model.body.weight`."""
    if "_orig_mod" not in name and "_wrapped_module" not in name:
        return name
    return ".".join(part for part in name.split(".") if part not in _MARKS)


def unmarked(names: Iterable[str]) -> dict[str, str]:
    """The names without marks, by name. Names that would be equal then stay as they are."""
    found = {name: without_marks(name) for name in names}
    count = Counter(found.values())
    return {name: plain if count[plain] == 1 else name for name, plain in found.items()}
