"""The place of checkpoints: a directory that all hosts see, or an object store."""

import errno
import importlib.util
import os
import threading
import time

from paceline._base import arguments
from paceline._base.wording import say
from paceline._native import judge_place
from paceline.errors import CheckpointError

# A file system answers within milliseconds. After this time the rank goes on without an answer.
_ANSWER_SECONDS = 1.0
_PAUSE_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 30.0
# Errors of a wrong name or missing rights. Others may pass with an outage of a server or disk.
_NEVER_PASSES = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST,
     errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)  # fmt: skip


def committed_folder(directory: str, step: int, generation: int, branch: int = 0) -> str | None:
    """The folder of that checkpoint in a directory; None if it is not complete there."""
    name = f"step-{step}-g{generation}" + (f"-b{branch}" if branch else "")
    folder = os.path.join(directory, name)
    return folder if os.path.exists(os.path.join(folder, "MANIFEST.json")) else None


def place_of(directory: str | os.PathLike[str]) -> str:
    """The place as the keeper takes it: an absolute path, or `s3://BUCKET/PREFIX`.

    Raises CheckpointError for other schemes, such as gs://.
    """
    given = arguments.path("Checkpointer", "directory", directory)
    if given.startswith("~"):
        raise CheckpointError(
            what="checkpoints cannot go there",
            where=given,
            why="only a shell replaces ~, so this would be a directory named ~ in "
                f"{os.getcwd()}",
            fix=f"use os.path.expanduser({given!r}), or ./{given} for a directory of that name",
            is_final=True,
        )
    judged = judge_place(given)
    if judged.bucket and isinstance(directory, str) and not given.startswith("s3://"):
        wanted = "write s3:// with two slashes; only a pathlib.Path may have lost one"
        raise arguments.refuse("Checkpointer", "directory", given, wanted, judged.text)
    if judged.problem:
        raise CheckpointError(
            what="checkpoints cannot go there", where=given, why=judged.problem, fix=judged.fix,
            is_final=True,
        )  # fmt: skip
    if not judged.bucket:
        return os.path.abspath(given)
    directory = judged.text
    if importlib.util.find_spec("boto3") is None:
        raise CheckpointError(
            what="checkpoints cannot go to an object store here",
            where=directory,
            why="the package boto3 is not installed",
            fix="pip install 'paceline[s3]'",
        )
    return directory


def directory_of(directory: str | os.PathLike[str], *, fix: str) -> str:
    """The path of a directory that this process itself reads or writes. No object store.

    `fix` is the error's fix if `directory` is in an object store.
    """
    given = os.fspath(directory)
    if judge_place(given).bucket:
        raise CheckpointError(
            what="this needs a directory",
            where=given,
            why="only a Checkpointer and its agent speak to an object store",
            fix=fix,
        )
    return place_of(given)


def make_directory(place: str, *, patience: float = _ANSWER_SECONDS) -> None:
    """Make the directory if it is missing. Raises CheckpointError if it cannot be made.

    Storage that does not answer, or only returns errors, does not stop a restore from memory: after
    `patience` seconds this prints a line and returns, and the directory is made later. The keeper
    prepares object stores.
    """
    if not place.startswith("/"):
        return
    is_tried = threading.Event()
    errors: list[OSError] = []

    def make() -> None:
        pause = _PAUSE_SECONDS
        while True:
            error = _try_to_make(place)
            errors[:] = [] if error is None else [error]
            is_tried.set()
            if error is None or error.errno in _NEVER_PASSES:
                return
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    # A daemon: a thread that waits for a file system cannot be ended and must not delay the exit.
    threading.Thread(target=make, name="directory", daemon=True).start()
    why = "" if is_tried.wait(patience) else f"it does not answer within {patience:.0f} s"
    for error in errors[:1]:
        if error.errno in _NEVER_PASSES:
            cannot = f"the directory does not exist and cannot be created: {error.strerror}"
            raise CheckpointError(
                what="checkpoints cannot go there",
                where=place,
                why="it is a file" if error.errno == errno.EEXIST else cannot,
                fix="use another directory, or create this one for the user who runs the script",
            ) from error
        why = str(error.strerror)
    if why:
        text = f"{place} cannot be reached ({why}); images in memory can be restored without it"
        say(text)


def _try_to_make(place: str) -> OSError | None:
    try:
        # First a look, which writes nothing: a full or read-only disk answers it.
        if not os.path.isdir(place):
            os.makedirs(place, mode=0o700, exist_ok=True)
    except OSError as error:
        return error
    return None
