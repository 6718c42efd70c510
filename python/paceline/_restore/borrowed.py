"""Entries that this rank's image lacks, taken from another rank's."""

from collections.abc import Iterable
from typing import cast

from paceline._restore.images import Source


def borrow(own: dict[str, object], others: Iterable[Source], key: str) -> bool:
    """Put the entry `key` of the first image that has it into the notes `own`.

    A rank that a parallel plan left idle has saved no optimizer. In a world that gives it a part of
    the model, it needs the others' notes of the optimizer. False: no image has the entry.
    """
    for source in others:
        notes = source.notes()
        if key not in cast("dict[str, object]", notes.get("entries", {})):
            continue
        for part in ("entries", "constants"):
            theirs = cast("dict[str, object]", notes.get(part, {}))
            if key in theirs:
                own[part] = {**cast("dict[str, object]", own.get(part, {})), key: theirs[key]}
        return True
    return False
