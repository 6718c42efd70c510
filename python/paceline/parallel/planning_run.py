"""The end of a planning run: `parallelize` writes the summary and the wishes, and ends the
process.
"""

import os

PLANNING = "PACELINE_PLANNING"
_WISHES = ".wishes"  # appended to the name of the summary's file


def end_with(summary: str, wishes: str) -> None:
    """In a planning run: write the summary and the wishes, and end the process with exit code 0.

    Otherwise do nothing.
    """
    path = os.environ.get(PLANNING)
    if not path:
        return
    _write(path + _WISHES, wishes)
    _write(path, summary)
    raise SystemExit(0)


def _write(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def line_of(error: Exception, script: str) -> str:
    """The innermost line of the script in the error's traceback."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"line {error.lineno}"
    found, at = "before its first line", error.__traceback__
    while at is not None:
        if os.path.realpath(at.tb_frame.f_code.co_filename) == os.path.realpath(script):
            found = f"line {at.tb_lineno}"
        at = at.tb_next
    return found
