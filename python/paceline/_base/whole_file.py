"""Small files that are replaced as a whole: a reader finds the old text or the new one."""

import os


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`. OSError: it could not be replaced, and the old one stays."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
