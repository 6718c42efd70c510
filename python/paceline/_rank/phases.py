"""The phase of this process, which its launcher can read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from threading import get_ident
from typing import ParamSpec, TypeVar

from paceline._rank.flight import START

P = ParamSpec("P")
R = TypeVar("R")


class Phases:
    """Sets phases by their numbers in `flight`: `Phases(writer.turn).turn(flight.DATA)`.

    Only the thread that made this object counts; it runs the script. Threads that save a file or
    read data ahead do not change the rank's phase.
    """

    def __init__(self, write: Callable[[int], None]) -> None:
        self.now = START
        self._write = write
        self._thread = get_ident()
        self._holds = 0

    def turn(self, phase: int) -> None:
        """The rank enters `phase`. Ignored inside of `within`."""
        if phase != self.now and not self._holds and get_ident() == self._thread:
            self.now = phase
            self._write(phase)

    @contextmanager
    def within(self, phase: int) -> Iterator[None]:
        """The whole block is `phase`. After it the rank is in its former phase."""
        if get_ident() != self._thread:
            yield
            return
        before = self.now
        holds, self._holds = self._holds, 0
        self.turn(phase)
        self._holds = holds + 1
        try:
            yield
        finally:
            self._holds = 0
            self.turn(before)
            self._holds = holds


NOTHING = nullcontext()
_current: Phases | None = None


def current() -> Phases | None:
    """This process's phases; None if no launcher records them."""
    return _current


def begin(phases: Phases) -> Phases:
    """Make `phases` those of this process."""
    global _current
    _current = phases
    return phases


def in_phase(phase: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: a call of the function is in that phase, as `@in_phase(CHECKPOINT)`."""

    def decorate(call: Callable[P, R]) -> Callable[P, R]:
        @wraps(call)
        def calls(*args: P.args, **kwargs: P.kwargs) -> R:
            if _current is None:
                return call(*args, **kwargs)
            with _current.within(phase):
                return call(*args, **kwargs)

        return calls

    return decorate
