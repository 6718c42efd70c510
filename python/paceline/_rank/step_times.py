"""Times this rank's steps, for its flight ring."""

from collections.abc import Callable
from threading import get_ident

_STRIDE_MAX = 10_000  # steps between two reports; more is a jump of the script's own count


class StepTimes:
    """Times steps by torch's optimizers, or by `pl.step` in a script that has none.

    times = StepTimes(writer.step)  # `writer.step(3)`: three steps have ended since the last call

    Only reports of the thread that made this object count; it runs the script.
    """

    def __init__(self, write: Callable[[int], None]) -> None:
        self._write = write
        self._thread = get_ident()
        self._is_counted = False
        self._last: int | None = None

    def counted(self) -> None:
        """An optimizer has ended a step. From now on `told` does nothing."""
        self._is_counted = True
        self._write(1)

    def told(self, step: int) -> None:
        """The script reports that `step` is done. It may report only each tenth step."""
        if self._is_counted or get_ident() != self._thread:
            return
        made = 1 if self._last is None else step - self._last
        if made == 0:
            return  # a save reports its step, too
        self._last = step
        if 0 < made <= _STRIDE_MAX:
            self._write(made)
