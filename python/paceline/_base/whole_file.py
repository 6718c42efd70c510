"""Replaces small files atomically: a reader finds the old text or the new one."""

import contextlib
import os
import secrets


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`. If this raises OSError, the old file is unchanged.

    Not synced: these files are notes that a later run can do without.
    """
    # A name that nobody can foresee, and no link: the folder may be one that others write to, too.
    temporary = f"{os.fspath(path)}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
