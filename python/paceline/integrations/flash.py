"""Common parts of the callbacks for Lightning and for Hugging Face's Trainer."""

import os
from typing import TypedDict, Unpack

from paceline.torch import Checkpointer


class Options(TypedDict, total=False):
    """Options of a Checkpointer that a callback takes. All are optional."""

    keep: int  # number of the newest checkpoints that stay in storage; default 3
    every: str | int | None  # steps, or "30s", between saves to storage; None: automatic


class Flash:
    """Owns the Checkpointer of a callback."""

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__()
        self._checkpointer = Checkpointer(directory, **options)

    @property
    def restored(self) -> str:
        """One sentence: where the state was restored from; "" before a restore."""
        return self._checkpointer.restored
