"""Shows what commands on the hosts of a job write, as they write it."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from paceline.integrations.ray.calls import ActorError, ask, get, is_there, ray
from paceline.integrations.ray.commands import Piece

_LOOK_SECONDS = 1.0
# Words of a command that ends only with the job, so that hosts cannot be shown one after another.
_FOLLOWS = ("-f", "--follow")


def show(piece: Piece) -> None:
    """Write it to this process's own output."""
    sys.stdout.buffer.write(piece.out)
    sys.stdout.flush()
    sys.stderr.buffer.write(piece.err)
    sys.stderr.flush()


def show_all(hosts: list[Any], words: list[str]) -> int:
    """Run `paceline WORDS` on these hosts, and return the highest exit code.

    The hosts are shown one after another; together, line by line, if the command follows. Ctrl-C
    interrupts the command there, whose last words are then shown.

    Raises:
        ActorError: no host is left that can be asked.
    """
    if not any(word in _FOLLOWS for word in words):
        return max(_show_together([host], words) for host in hosts)
    return _show_together(hosts, words)


class _Shown:
    """One command on one host, and the question for its next piece."""

    def __init__(self, host: Any, words: list[str]) -> None:
        self._host = host
        self._number: int = ask(host, "begin", words, _terminal())
        self.asked: Any = None
        self.ask_on()

    def ask_on(self) -> None:
        self.asked = self._host.read.remote(self._number)

    def interrupt(self) -> None:
        self._host.interrupt.remote(self._number)


def _show_together(hosts: list[Any], words: list[str]) -> int:
    running = [_Shown(host, words) for host in hosts]
    codes: list[int] = []
    lost: ActorError | None = None
    is_interrupted = False
    while running:
        try:
            ray.wait([one.asked for one in running], timeout=_LOOK_SECONDS)
            for one in [each for each in running if is_there(each.asked)]:
                try:
                    piece: Piece = get(one.asked)
                except ActorError as error:
                    running.remove(one)
                    lost = error
                    continue
                show(piece)
                if piece.exit_code is None:
                    one.ask_on()
                else:
                    running.remove(one)
                    codes.append(piece.exit_code)
        except KeyboardInterrupt:
            if is_interrupted:
                raise
            is_interrupted = True
            for one in running:
                one.interrupt()
    if lost is not None and not codes:
        raise lost
    return max(codes)


def _terminal() -> dict[str, str]:
    """The variables by which the command there writes as for the terminal here."""
    if not sys.stdout.isatty():
        return {}
    width = shutil.get_terminal_size().columns
    return {"CLICOLOR_FORCE": "1", "COLUMNS": str(width)}
