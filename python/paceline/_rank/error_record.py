"""The record of an exception that ended a rank; see docs/formats/error_record.md."""

import json
import os
import sysconfig
import time
import traceback
from types import TracebackType

from paceline._base.launch import Launch
from paceline._base.wording import say
from paceline._rank import error_kind, progress
from paceline._rank.output import NO_ROOM
from paceline.errors import ScriptLine

SCHEMA = "paceline.rank_error/1"
ROOM = "room"  # a file beside the records, whose blocks the agent has reserved
_MESSAGE_MAX = 16 << 10
_TRACEBACK_MAX = 64 << 10


def record(error: BaseException) -> None:
    """Write the record of `error` and mark the page.

    Never raises: the traceback must still be printed.
    """
    try:
        session = progress.session()
        monotonic_ns = session.failed() if session is not None else time.monotonic_ns()
        launch = Launch.from_environment()
        if launch.error_file is not None and (session is not None or launch.page is None):
            step = session.last_step if session is not None else -1
            has_stepped = step >= 0 or (session is not None and session.step_count > 0)
            fields = describe(error, step, monotonic_ns, has_stepped=has_stepped)
            _write(launch, launch.error_file, fields)
    except Exception as problem:
        say(f"no error record: {problem!r}")


def mark() -> None:
    """Mark the page without a record: the script ends by a SystemExit that is no success.

    Never raises.
    """
    try:
        session = progress.session()
        if session is not None:
            session.failed()
    except Exception as problem:
        say(f"the page is not marked: {problem!r}")


def describe(
    error: BaseException, step: int, monotonic_ns: int, *, has_stepped: bool = False
) -> dict[str, object]:
    """Everything about `error` that does not depend on the rank: `describe(e, 12, now)["type"]`."""
    kind = type(error)
    prefix = "" if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "."
    place = _place(error)
    return {
        "type": prefix + kind.__qualname__,
        "message": _message(error)[:_MESSAGE_MAX],
        "traceback": _shorten("".join(traceback.format_exception(error))),
        "file": place[0],
        "line": place[1],
        "function": place[2],
        "final": error_kind.is_final(error, has_stepped=has_stepped),
        "repeatable": error_kind.is_repeatable(error),
        "step": step,
        "monotonic_ns": monotonic_ns,
        "time": time.time(),
    }


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, SyntaxError) and error.filename is not None and error.msg:
            return error.msg  # its text repeats the file and the line
        return str(error)
    except Exception:
        return "(the exception's own text cannot be made)"


def _shorten(text: str) -> str:
    if len(text) <= _TRACEBACK_MAX:
        return text
    half = _TRACEBACK_MAX // 2
    return text[:half] + "\n[… cut …]\n" + text[-half:]


def _place(error: BaseException) -> tuple[str | None, int | None, str | None]:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno, None
    where = getattr(error, "where", None)
    if isinstance(where, ScriptLine):
        return where.file, where.number, None
    paths = sysconfig.get_paths()
    foreign = tuple(paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    innermost: tuple[str | None, int | None, str | None] = (None, None, None)
    own = innermost
    tb: TracebackType | None = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        innermost = (code.co_filename, tb.tb_lineno, code.co_qualname)
        if not code.co_filename.startswith(("<", *foreign)):
            own = innermost
        tb = tb.tb_next
    return own if own[0] is not None else innermost


def _write(launch: Launch, path: str, fields: dict[str, object]) -> None:
    whole = {
        "schema": SCHEMA,
        "generation": launch.generation,
        "rank": launch.rank,
        "local_rank": launch.local_rank,
        "pid": os.getpid(),
    } | fields
    data = json.dumps(whole).encode()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        _fill(temporary, data)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        # The agent has reserved room on the disk for one record: that of the first failure.
        os.rename(os.path.join(os.path.dirname(path), ROOM), temporary)
        _fill(temporary, data)
    os.replace(temporary, path)


def _fill(path: str, data: bytes) -> None:
    """Write the file in place, because blocks that were reserved for it are given up by O_TRUNC."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.truncate()
