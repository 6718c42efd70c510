"""What the callbacks for Lightning and for Hugging Face's Trainer have in common."""

import os
from typing import TypedDict, Unpack

from paceline.torch import Checkpointer


class Options(TypedDict, total=False):
    """Those of a Checkpointer that a callback takes; all may be left out."""

    keep: int  # newest checkpoints that stay in storage; 3
    every: str | int | None  # steps, or text such as "30s", between those; None: as it pays


class Flash:
    """Owns the Checkpointer of a callback."""

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__()
        self._checkpointer = Checkpointer(directory, **options)

    @property
    def restored(self) -> str:
        """One sentence: from where the state came; empty before that."""
        return self._checkpointer.restored
