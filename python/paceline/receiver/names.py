"""Names of what a writer sends, and the receipt for a part. Needs no pyarrow."""

import re
from dataclasses import dataclass

from paceline.receiver.refusal import Refusal

_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class PartName:
    stream: str
    app: str
    epoch: str
    writer: str
    attempt: str

    def __post_init__(self) -> None:
        for what in ("stream", "app", "epoch", "writer", "attempt"):
            checked_name(what, getattr(self, what))


@dataclass(frozen=True, slots=True)
class Receipt:
    """A part that is durable at the receiver. A driver collects receipts and commits them."""

    writer: str
    attempt: str
    rows: int
    digest: str
    epoch: str = ""
    """Under which it was sent. Empty: under the epoch that is committed."""


def checked_name(what: str, name: object) -> str:
    """The name. Names become paths and keys, so nothing else passes."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refusal(
            what=f"{str(name)[:100]!r} is not a possible name",
            where=f"the {what} of a part",
            why="a name has 1 to 100 of A-Z a-z 0-9 _ . - and no full stop in front",
            fix=f"another name for the {what}",
        )
    return name
