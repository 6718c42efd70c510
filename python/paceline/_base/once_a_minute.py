"""A failure that may pass and comes again: it is logged at most once a minute."""

import logging
import time

SECONDS = 60.0


class OnceAMinute:
    """`OnceAMinute().tell("%s does not answer", where)` logs a warning, or nothing."""

    def __init__(self) -> None:
        self._told: float | None = None

    def tell(self, text: str, *values: object) -> None:
        now = time.monotonic()
        if self._told is None or now - self._told >= SECONDS:
            self._told = now
            logging.getLogger("paceline").warning(text, *values)
