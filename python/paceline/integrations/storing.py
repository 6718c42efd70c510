"""Writes a checkpoint directly to a directory, from processes that each have a part of it."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline._native import Layout, StoredPlace
from paceline._restore.parts import memory
from paceline._state import notes
from paceline._state.save_plan import Leaf
from paceline._storage.storage_place import committed_folder
from paceline.errors import CheckpointError
from paceline.torch import Torch


@dataclass(frozen=True)
class Name:
    """The identity of a checkpoint in a directory; the same on all ranks that save it."""

    step: int
    generation: int
    world_size: int
    job_id: str

    def place(self, directory: str) -> StoredPlace:
        return StoredPlace(directory, self.job_id, self.generation, self.step)


@dataclass(frozen=True)
class Shard:
    """The part that one rank stores: tensors, and the other values by entry."""

    name: Name
    rank: int
    leaves: list[Leaf]
    entries: Mapping[str, notes.Json]
    constants: Mapping[str, object] = field(default_factory=dict[str, object])


def unused_name(directory: str, step: int, world_size: int) -> Name:
    """The name for a save of `step`. Nothing is overwritten: a step saved before gets the next N.

    One rank decides for all.
    """
    generation = 0
    # Each save is a job of its own, because after a rollback its step may be lower than the newest.
    job_id = f"dcp-{secrets.token_hex(8)}"
    while committed_folder(directory, step, generation) is not None:
        generation += 1
    return Name(step, generation, world_size, job_id)


def write(place: StoredPlace, shard: Shard) -> None:
    """Write one rank's part durably. It becomes visible with `place.commit(world_size)`."""
    leaves = shard.leaves
    Torch().refresh(leaves)
    loose = [leaf.key for leaf in leaves if not leaf.is_parameter]
    boxes = [(one.key, one.box.dtype, one.box.shape, one.box.offset) for one in leaves]
    layout = Layout(boxes, set(), loose)
    text = {
        "schema": "paceline.notes/1",
        "rank": shard.rank,
        "world_size": shard.name.world_size,
        "step": shard.name.step,
        "random": {},
        "entries": shard.entries,
        "constants": shard.constants,
        "spread": True,
        "shapes": {leaf.key: leaf.box.whole for leaf in leaves if leaf.box.is_sharded},
    }
    kinds = {leaf.key: leaf.box.kind for leaf in leaves if leaf.box.kind}
    if kinds:
        text["kinds"] = kinds
    tensors = [memory(leaf) for leaf in leaves]
    try:
        place.write(shard.rank, layout, tensors, json.dumps(text).encode())
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            what="the checkpoint cannot be stored",
            where=place.name,
            why=str(error),
            fix="room and permission there; what was begun goes with the next clean-up",
        ) from error
