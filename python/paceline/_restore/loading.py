"""Reads a checkpoint from storage without a Checkpointer: weights for another training."""

import os
from dataclasses import dataclass

from paceline._base import arguments
from paceline._rank import progress
from paceline._rank.flight import RESTORE
from paceline._rank.phases import in_phase
from paceline._restore.damage import READ_RIGHTS
from paceline._restore.fetching import at_hand, newer
from paceline._restore.images import Images, UnreadableError
from paceline._restore.restoring import Framework, Restoring
from paceline._state import notes
from paceline._state.save_plan import State
from paceline._state.save_planner import check_keys
from paceline._state.stateful import has_state, holds_nothing
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
    if not any(map(holds_nothing, state.values())):
        work.leave_rest(state)


@in_phase(RESTORE)
def load_with(
    framework: Framework, path: str | os.PathLike[str], state: State, *, strict: bool
) -> Loaded:
    """Fill `state` from the checkpoint at `path`, saved by a world of any size.

    Random numbers stay as they are. Every rank calls it for its own parts.
    """
    state = arguments.state("load", state)
    arguments.flag("load", "strict", strict)
    arguments.path("load", "path", path)
    with at_hand(path) as (folder, told):
        return _load(framework, folder, state, strict=strict, named=told)


def _load(
    framework: Framework, folder: str, state: State, *, strict: bool, named: str
) -> Loaded:
    try:
        images = Images.stored(folder, progress.rank())
        work = fill(framework, images, state, strict=strict, where=named)
    except UnreadableError as error:
        fix = f"paceline ckpt verify {named} names what is damaged; take another one"
        raise CheckpointError(
            what="the checkpoint cannot be read",
            where=named,
            why=str(error),
            fix=READ_RIGHTS if error.is_denied else fix,
        ) from error
    work.finish()
    step, told = int(str(work.own["step"])), work.told()
    return Loaded(named, step, work.left_out, work.replaced, images.bytes_read, told)
