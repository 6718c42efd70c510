"""The ticket of a save, which tells how far the save is."""

from typing import Protocol

from paceline._base import arguments
from paceline.errors import CheckpointError

LEVELS = ("memory", "replicated", "durable")


class Owner(Protocol):
    """The Checkpointer that made the ticket."""

    def wait_for(self, ticket: "Ticket", level: str, timeout: float | None) -> None: ...


class Ticket:
    """One save. `ticket.wait("durable")` returns when storage has that step.

    Levels: `"memory"` is reached at once, from a GPU when its bytes are hashed. `"replicated"`: as
    many hosts have the step as `replicas=` requests. `"durable"`: storage has it. A later save
    counts as well.

    `lost` says why this save is not kept; it is "" for a kept save, also after a later save has
    replaced it.
    """

    def __init__(self, owner: Owner, step: int, *, branch: int = 0, lost: str = "") -> None:
        self.step = step
        self.branch = branch  # how often the script had gone back to an earlier step
        self.lost = lost
        self._owner = owner

    @property
    def is_saved(self) -> bool:
        """Whether this save is kept. If not, `lost` says why."""
        return not self.lost

    def wait(self, level: str = "durable", timeout: float | None = None) -> None:
        """Wait until this save, or a later one, has reached `level`.

        Args:
            level: "memory", "replicated" or "durable"; see the class.
            timeout: in seconds. None and infinity: no limit. The copy from a GPU is always awaited.

        Raises:
            CheckpointError: the save is not kept, or the level failed.
            TimeoutError: after `timeout` seconds.
        """
        arguments.one_of("Ticket.wait", "level", level, LEVELS)
        timeout = arguments.timeout("Ticket.wait", timeout)
        if self.lost:
            raise CheckpointError(
                what=f"step {self.step} is not saved",
                where="Ticket.wait",
                why=self.lost,
                fix="nothing to do for other steps: each save has its own ticket",
            )
        self._owner.wait_for(self, level, timeout)
