"""Settings of a client that are secret: a TOML file of mode 0600."""

import os
import tomllib

from paceline.errors import DataError


def read_secrets(path: str | os.PathLike[str]) -> dict[str, str]:
    """The file's settings as texts. Raises DataError if it cannot be read, or others can."""
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            settings = tomllib.load(file)
    except (OSError, ValueError) as error:  # TOML's errors are ValueErrors
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(
            what="the stream's secrets cannot be read",
            where=path,
            why=why,
            fix='a file of mode 0600 with lines as "sasl.password" = "…", or leave secrets out',
        ) from error
    if mode & 0o077:
        raise DataError(
            what="other users can read the stream's secrets",
            where=path,
            why="the file has a mode that is wider than 0600",
            fix=f"chmod 600 {path}",
        )
    return {key: str(value) for key, value in settings.items()}
