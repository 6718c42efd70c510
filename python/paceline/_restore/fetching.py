"""The folder of a checkpoint that `load` reads: as it is, or fetched from an object store.

with at_hand("s3://bucket/runs/gpt") as (folder, told):
    ...
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from typing import cast

from paceline._base import launch
from paceline._base.wording import say
from paceline._native import Manifest, judge_place, newest_checkpoint
from paceline._rank import progress
from paceline._restore.damage import READ_RIGHTS
from paceline._storage.directory_id import order_of
from paceline._storage.storage_place import directory_of
from paceline.errors import CheckpointError


@contextlib.contextmanager
def at_hand(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """A folder on this host with the checkpoint, and its name for people.

    What is fetched is verified, goes to the directory for temporary files, and is removed at the
    end. Each process fetches for itself, and fetches all ranks' files.
    """
    judged = judge_place(os.fspath(path))
    if not judged.bucket:
        folder = find(path)
        yield folder, folder
        return
    with tempfile.TemporaryDirectory(prefix="paceline-load-") as room:
        told = _fetch(judged.text, room)
        yield newest_checkpoint(room), told


def find(path: str | os.PathLike[str]) -> str:
    """The folder of a checkpoint: `path` itself, or the newest checkpoint in `path`."""
    fix = f"paceline ckpt copy {os.fspath(path)} DIR, and give DIR"
    named = directory_of(path, fix=fix)
    try:
        folder = newest_checkpoint(named)
        _tell_passed_over(named, folder)
        return folder
    except RuntimeError as error:  # a format that only a newer version reads
        raise newer(named, error) from error
    except PermissionError as error:
        raise CheckpointError(
            what="the newest checkpoint cannot be read",
            where=named,
            why=str(error),
            fix=READ_RIGHTS,
        ) from error
    except (LookupError, OSError) as error:
        raise CheckpointError(
            what="there is no checkpoint",
            where=named,
            why=str(error),
            fix="paceline ckpt ls DIR, with the directory that the Checkpointer was given",
        ) from error


def _tell_passed_over(directory: str, taken: str) -> None:
    """Say which damaged checkpoints of `directory` were saved after `taken`, a folder in it."""
    name = os.path.basename(taken)
    if progress.rank() != 0 or os.path.dirname(taken) != directory.rstrip("/"):
        return
    for other in sorted(os.listdir(directory), key=order_of):
        folder = os.path.join(directory, other)
        is_committed = os.path.lexists(os.path.join(folder, "MANIFEST.json"))
        if order_of(other) <= order_of(name) or not is_committed:
            continue
        try:
            Manifest.read(folder)
        except (LookupError, OSError) as error:
            say(f"passed over {other}: {error}")


def newer(where: str, error: Exception) -> CheckpointError:
    """The error for a checkpoint that a newer paceline wrote."""
    return CheckpointError(
        what="the checkpoint was written by a newer paceline",
        where=where,
        why=str(error),
        fix="restore with that version or a later one, or save to another directory",
    )


def _fetch(place: str, room: str) -> str:
    """Copy the checkpoint to `room`. Returns its place in the store."""
    binary = launch.binary()
    try:
        done = subprocess.run(
            [binary, "--json", "ckpt", "copy", place, room],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise CheckpointError(
            what="the checkpoint cannot be fetched from its object store",
            where=binary,
            why=error.strerror or str(error),
            fix="install paceline in this interpreter; or PACELINE_BIN=PATH of its program",
        ) from error
    try:
        answer = cast("dict[str, object]", json.loads(done.stdout))
    except ValueError:
        answer = {"cause": done.stderr.strip()[-300:] or f"exit code {done.returncode}"}
    if done.returncode == 0:
        return str(answer["from"])
    raise CheckpointError(
        what=str(answer.get("message", "the checkpoint cannot be fetched")),
        where=str(answer.get("where", place)),
        why=str(answer.get("cause", "")),
        fix=str(answer.get("fix", f"paceline ckpt copy {place} DIR, and load DIR")),
    )
