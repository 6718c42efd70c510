"""What a save gives back, for those who need to know how far it is."""

from typing import Protocol

from paceline._base import arguments
from paceline.errors import CheckpointError

LEVELS = ("memory", "replicated", "durable")


class Owner(Protocol):
    """Who made the ticket."""

    def wait_for(self, ticket: "Ticket", level: str, timeout: float | None) -> None: ...


class Ticket:
    """One save. `ticket.wait("replicated")` returns when a second host has that step.

    `"memory"` is there at once, from a GPU as soon as its bytes are hashed; `"durable"` means that
    storage has it. A step that was saved later counts as well.

    `lost` says why nothing keeps this save; it is empty while something does. A save that a later
    one has replaced is no lost one.
    """

    def __init__(self, owner: Owner, step: int, *, branch: int = 0, lost: str = "") -> None:
        self.step = step
        self.branch = branch  # how often the script has gone back to an earlier step before
        self.lost = lost
        self._owner = owner

    @property
    def is_saved(self) -> bool:
        """False: nothing keeps this save, and `lost` says why."""
        return not self.lost

    def wait(self, level: str = "durable", timeout: float | None = None) -> None:
        """Wait until this save, or a later one, has that level.

        Raises `CheckpointError` with the reason when it never will, because nothing keeps the save
        or because the level failed, and `TimeoutError` after `timeout` seconds. None
        and infinity are no limit. The bytes of a GPU are always waited for.
        """
        arguments.one_of("Ticket.wait", "level", level, LEVELS)
        timeout = arguments.timeout("Ticket.wait", timeout)
        if self.lost:
            raise CheckpointError(
                what=f"step {self.step} is not saved",
                where="Ticket.wait",
                why=self.lost,
                fix="nothing for what was saved before or later: each save has a ticket of its own",
            )
        self._owner.wait_for(self, level, timeout)
