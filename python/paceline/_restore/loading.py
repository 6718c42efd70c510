"""Reads a checkpoint from storage without a Checkpointer: weights for another training."""

import os
from dataclasses import dataclass

from paceline._base import arguments
from paceline._native import newest_checkpoint
from paceline._rank import progress
from paceline._restore.images import Images, UnreadableError
from paceline._restore.restoring import Framework, Restoring
from paceline._state import notes
from paceline._state.save_plan import State
from paceline._state.save_planner import check_keys
from paceline._state.stateful import has_state
from paceline._storage.storage_place import directory_of
from paceline.errors import CheckpointError


@dataclass(frozen=True)
class Loaded:
    """The result of `load`: `loaded.step`, and sentences about what was left out or replaced."""

    folder: str
    step: int
    left_out: list[str]
    replaced: list[str]
    bytes_read: int
    told: str = ""  # what differs from the saved state, as the end of a sentence


def find(path: str | os.PathLike[str]) -> str:
    """The folder of a checkpoint: `path` itself, or the newest checkpoint in `path`."""
    fix = f"paceline ckpt copy {os.fspath(path)} DIR, and load DIR"
    named = directory_of(path, fix=fix)
    try:
        return newest_checkpoint(named)
    except RuntimeError as error:  # a format that only a newer version reads
        raise newer(named, error) from error
    except (LookupError, OSError) as error:
        raise CheckpointError(
            what="there is no checkpoint",
            where=named,
            why=str(error),
            fix="paceline ckpt ls DIR, with the directory that the Checkpointer was given",
        ) from error


def fill(
    framework: Framework, images: Images, state: State, *, strict: bool, where: str
) -> Restoring:
    """Fill `state` from `images`. The caller calls `finish()` once the bytes are verified.

    Raises CheckpointError before anything is changed if a required part does not fit, and
    UnreadableError if an image is damaged or gone.
    """
    try:
        work = Restoring(framework, images, strict=strict, size=progress.world_size())
        ask(work, framework, state)
    except notes.NewerError as error:
        raise newer(where, error) from error
    except notes.NotesError as error:
        raise UnreadableError(str(error)) from error
    work.check(where)
    work.copy()
    return work


def newer(where: str, error: Exception) -> CheckpointError:
    """The error for a checkpoint that a newer paceline wrote."""
    return CheckpointError(
        what="the checkpoint was written by a newer paceline",
        where=where,
        why=str(error),
        fix="restore with that version or a later one, or save to another directory",
    )


def ask(work: Restoring, framework: Framework, state: State) -> None:
    """Ask for all of `state`: modules, optimizers, objects that load their state, and the rest.

    If several entries share memory, the first one is filled in place; see `Restoring`.
    """
    check_keys(state)
    # Modules first: an optimizer's state may be a parameter's memory, and has no type here.
    ordered = sorted(state.items(), key=lambda one: hasattr(one[1], "param_groups"))
    rest = [
        (key, value)
        for key, value in ordered
        if not framework.restore_entry(work, key, value, state)
    ]
    for key, value in sorted(rest, key=lambda one: not has_state(one[1])):
        work.fill_value(key, value, state)
    work.leave_rest(state)


def load_with(
    framework: Framework, path: str | os.PathLike[str], state: State, *, strict: bool
) -> Loaded:
    """Fill `state` from the checkpoint at `path`, saved by a world of any size.

    Random numbers stay as they are. Every rank calls it for its own parts.
    """
    state = arguments.state("load", state)
    arguments.flag("load", "strict", strict)
    arguments.path("load", "path", path)
    folder = find(path)
    try:
        images = Images.stored(folder, progress.rank())
        work = fill(framework, images, state, strict=strict, where=folder)
    except UnreadableError as error:
        raise CheckpointError(
            what="the checkpoint cannot be read",
            where=folder,
            why=str(error),
            fix=f"paceline ckpt verify {folder} names what is damaged; take another one",
        ) from error
    work.finish()
    step, told = int(str(work.own["step"])), work.told()
    return Loaded(folder, step, work.left_out, work.replaced, images.bytes_read, told)
