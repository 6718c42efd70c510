"""What a save gives back, for those who need to know how far it is."""

from typing import Protocol

LEVELS = ("memory", "replicated", "durable")


class Owner(Protocol):
    """Who made the ticket."""

    def wait_for(self, step: int, level: str) -> None: ...


class Ticket:
    """One save. `ticket.wait("replicated")` returns when a second host has that step.

    `"memory"` is there at once, from a GPU as soon as its bytes are hashed; `"durable"` means that
    storage has it. A later step counts as well.
    """

    def __init__(self, owner: Owner, step: int, *, is_saved: bool) -> None:
        self.step = step
        self.is_saved = is_saved  # False: every slot was in use, this step is left out
        self._owner = owner

    def wait(self, level: str = "durable") -> None:
        """Raise `CheckpointError` with the reason when it will not come."""
        if level not in LEVELS:
            raise ValueError(f'a level is "memory", "replicated" or "durable", not {level!r}')
        if self.is_saved:
            self._owner.wait_for(self.step, level)
