"""How long a rank's own passes take, without its waiting for other ranks."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch

from paceline._data.cut import Clock
from paceline.integrations.by_speed import DEVICE_CLOCK

WINDOW = 8  # steps; their marks are kept until `take`


class Busy:
    """Adds up the passes of the newest steps: `with busy.working(): forward()`."""

    def __init__(self, device: torch.device) -> None:
        self.clock = DEVICE_CLOCK if device.type == "cuda" else Clock()
        self._is_counting = False
        self._marks: list[tuple[Any, Any]] = []  # of the present step
        self._steps: deque[list[tuple[Any, Any]]] = deque(maxlen=WINDOW)

    def begin(self) -> None:
        """A step begins."""
        self._marks, self._is_counting = [], True

    @contextmanager
    def working(self) -> Iterator[None]:
        if not self._is_counting:
            yield
            return
        begin = self.clock.mark()
        yield
        self._marks.append((begin, self.clock.mark()))

    def end(self) -> None:
        """A step ends."""
        self._steps.append(self._marks)
        self._marks, self._is_counting = [], False

    def take(self) -> float:
        """Seconds of the passes of a step: the median of the newest steps; 0 if there was none."""
        took = [sum(self.clock.between(*marks) for marks in step) for step in self._steps]
        self._steps.clear()
        return median(took or [0])
