"""Settings of a client that are secret: a TOML file of mode 0600."""

import os
import tomllib

from paceline.errors import DataError


def read_secrets(path: str | os.PathLike[str]) -> dict[str, str]:
    """The file's settings as texts. Raises DataError if other users can read it."""
    path = os.fspath(path)
    if os.stat(path).st_mode & 0o077:
        raise DataError(
            what="other users can read the stream's secrets",
            where=path,
            why="the file has a mode that is wider than 0600",
            fix=f"chmod 600 {path}",
        )
    with open(path, "rb") as file:
        return {key: str(value) for key, value in tomllib.load(file).items()}
