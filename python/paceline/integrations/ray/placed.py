"""One actor of a job, as the adapter knows it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from paceline.integrations.ray.calls import (
    ActorError,
    first_line,
    get,
    host_of,
    is_there,
    is_unfit,
    kill,
    last_line,
)
from paceline.integrations.ray.decide import State
from paceline.integrations.ray.host import Outcome


@dataclass(frozen=True)
class Unfit:
    """A raylet on which an actor of paceline failed to start."""

    raylet: str
    """Ray's id of it; "": unknown."""
    host: str
    why: str

    @classmethod
    def of(cls, actor: Any, error: Exception) -> Unfit:
        """From the error with which an actor died there."""
        return cls(*host_of(actor), last_line(error))

    def __str__(self) -> str:
        return f"cannot be made on {self.where()}: {self.why}"

    def where(self) -> str:
        """The host's name with Ray's id, as `ray list nodes` shows it."""
        return f"{self.host or 'an unknown host'} (raylet {self.raylet[:12] or 'unknown'})"

    def fix(self) -> str:
        """What the user can do about it."""
        if "ModuleNotFoundError" in self.why or "paceline` is missing" in self.why:
            return f"install paceline {_version()} on that host, in the Python of its raylet"
        return f"ray logs --node-id {self.raylet}   has the raylet's own words"


def _version() -> str:
    from importlib.metadata import version

    return version("paceline")


@dataclass
class Placed:
    """One actor, and the answers that it owes."""

    actor: Any
    outcome: Any
    """The answer of `wait`. It comes when the actor's child has ended, or the actor is dead."""
    ready: Any
    """The answer of `__ray_ready__`. It comes when Ray has started the actor's process."""
    asked_place: Any
    """The answer of `ray_node`."""
    place: str = ""
    """Ray's id of its raylet, once it is known."""
    state: State = State.WAITS
    words: str = ""
    began: float = field(default_factory=time.monotonic)
    result: Outcome | None = None
    unfit: Unfit | None = None
    """Where the actor could not be made, if that is why it ended."""

    @classmethod
    def of(cls, actor: Any) -> Placed:
        return cls(actor, actor.wait.remote(), actor.__ray_ready__.remote(),
                   actor.ray_node.remote())

    def look(self) -> None:
        """Take the answers that have come."""
        if self.state is State.WAITS and is_there(self.ready):
            self.state = State.RUNS
        if self.state is State.RUNS and not self.place and is_there(self.asked_place):
            with suppress(ActorError):  # `outcome` tells how it ended
                self.place = get(self.asked_place)
        if self.state is State.ENDED or not is_there(self.outcome):
            return
        self.state = State.ENDED
        try:
            result: Outcome = get(self.outcome)
            self.result, self.words = result, f"ended with exit code {result.exit_code}"
        except ActorError as error:
            self.words = f"lost its actor ({first_line(error)})"
            if is_unfit(error):
                self.unfit = Unfit.of(self.actor, error)
                self.words = str(self.unfit)
        kill(self.actor)

    def age(self) -> float:
        """Seconds since it was asked for, or since it was asked to leave."""
        return time.monotonic() - self.began
