"""Replaces small files atomically: a reader finds the old text or the new one."""

import contextlib
import os


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`. If this raises OSError, the old file is unchanged.

    Not synced: these files are notes that a later run can do without.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
