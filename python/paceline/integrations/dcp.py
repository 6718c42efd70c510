"""PyTorch's distributed checkpoint (DCP) in paceline's format.

    from torch.distributed import checkpoint as dcp
    from paceline.integrations.dcp import PacelineReader, PacelineWriter

    dcp.save(state, storage_writer=PacelineWriter("runs/gpt", step=100))
    dcp.load(state, storage_reader=PacelineReader("runs/gpt"))  # or runs/gpt/step-100-g0

The reader also loads checkpoints of a Checkpointer. Objects other than tensors are written as typed
JSON and not as pickles, so they must be plain values.
"""

import dataclasses
import io
import os
from collections.abc import Iterator
from math import prod
from typing import Any, cast

import torch
from torch.distributed.checkpoint.metadata import (
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from paceline._native import judge_place
from paceline._rank import progress
from paceline._restore.fetching import find, newer
from paceline._restore.images import Images
from paceline._restore.parts import Part
from paceline._state import notes
from paceline._state.save_plan import Box, Leaf, Shape
from paceline._state.save_planner import check_names
from paceline._state.torch_types import DTYPES
from paceline._storage.storage_place import directory_of
from paceline.errors import CheckpointError
from paceline.integrations import storing
from paceline.integrations.dcp_index import Index, kind_of
from paceline.torch import Torch

# Elements of the buffer for conversions to another type.
_BUFFER_ELEMENTS = 4 << 20
_COPY = "save to a directory, and paceline ckpt copy it to the store"


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class PacelineWriter(StorageWriter):
    """Saves into DIRECTORY/step-STEP-gN; N is the first number that this step has not used.

    Every rank builds its part in memory first. The checkpoint becomes visible when it is complete.

    Args:
        directory: a directory that all hosts see; no object store.
        step: 0 or more.

    Raises:
        ValueError: the step is negative.
        CheckpointError: the directory cannot be used.
    """

    def __init__(self, directory: str | os.PathLike[str], *, step: int) -> None:
        if step < 0:
            raise ValueError("a step is 0 or more")
        self._directory = directory_of(directory, fix=_COPY)
        self._step = step

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            self._directory = directory_of(checkpoint_id, fix=_COPY)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        os.makedirs(self._directory, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        self._name = storing.unused_name(self._directory, self._step, len(plans))
        return [
            dataclasses.replace(plan, storage_data=(self._name, rank))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        entries: dict[str, notes.Json] = {}
        leaves: list[Leaf] = []
        for item in plan.items:
            if item.tensor_data is None:
                # Not resolve_data, which would pickle the object.
                value = cast("Any", planner).lookup_object(item.index)
                entries[item.index.fqn] = _encoded(item.index.fqn, value, leaves)
                continue
            tensor = cast("torch.Tensor", planner.resolve_data(item))
            leaf = Torch().leaf(item.index.fqn, tensor.detach())
            chunk = item.tensor_data.chunk
            parts = 1 if tensor.is_complex() else 0  # a complex number is two reals
            shape, offset = (*chunk.sizes, *[2] * parts), (*chunk.offsets, *[0] * parts)
            whole = (*item.tensor_data.size, *[2] * parts)
            box = Box(leaf.box.dtype, shape, offset, whole, leaf.box.kind)
            leaves.append(dataclasses.replace(leaf, box=box))
        check_names(leaves)
        name, rank = cast("tuple[storing.Name, int]", plan.storage_data)
        storing.write(name.place(self._directory), storing.Shard(name, rank, leaves, entries))
        return _done([WriteResult(item.index, 0, None) for item in plan.items])

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        self._name.place(self._directory).commit(self._name.world_size)

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self._directory)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return _is_directory(checkpoint_id)


class PacelineReader(StorageReader):
    """Reads the parts of tensors that the plan asks for. Every chunk is verified.

    A tensor of another type than the saved one is converted, as by torch's readers.

    Args:
        path: a directory of checkpoints (its newest one is read), or one checkpoint in it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._path = checkpoint_id or self._path

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        folder = find(self._path)
        try:
            self._index = Index(Images.stored(folder, progress.rank()))
        except notes.NewerError as error:
            raise newer(folder, error) from error
        self._metadata = self._index.metadata()
        return self._metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        pass  # every rank reads the metadata itself

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                text = io.BytesIO()
                torch.save(self._index.value(item.storage_index.fqn, self._whole), text)
                text.seek(0)
                planner.load_bytes(item, text)
                continue
            dtype = self._type(item.storage_index.fqn)
            target = planner.resolve_tensor(item).detach()
            if tuple(target.shape) != tuple(item.lengths):
                raise CheckpointError(
                    what=f"{item.dest_index.fqn} cannot be loaded",
                    where=str(self._path),
                    why=f"the planner asks for {list(item.lengths)} of it, and its tensor has"
                    f" the shape {list(target.shape)}",
                    fix="load into a tensor of the shape that was saved",
                )
            part = self._index.places[item.storage_index]
            _read_into(target, part, tuple(item.storage_offsets), dtype)
            planner.commit_tensor(item, target)
        return _done(None)

    def _type(self, key: str) -> torch.dtype | None:
        """The tensor's type if the file has no name for it, else None."""
        kind = self._index.kinds.get(key)
        if kind is not None and kind_of(kind) == torch.bool:
            raise _no_name_for(key, kind, str(self._path))
        return None if kind is None else kind_of(kind)

    def _whole(self, key: str) -> torch.Tensor:
        """The whole tensor `key`, which is part of an object."""
        described = cast("TensorStorageMetadata", self._metadata.state_dict_metadata[key])
        dtype = self._type(key)
        whole = torch.empty(described.size, dtype=described.properties.dtype)
        for chunk in described.chunks:
            target = whole
            for axis, (at, size) in enumerate(zip(chunk.offsets, chunk.sizes, strict=True)):
                target = target.narrow(axis, at, size)
            part = self._index.places[MetadataIndex(key, chunk.offsets)]
            _read_into(target, part, (0,) * len(chunk.sizes), dtype)
        return whole

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return _is_directory(checkpoint_id)


def _is_directory(checkpoint_id: str | os.PathLike[str]) -> bool:
    judged = judge_place(os.fspath(checkpoint_id))
    return not judged.bucket and not judged.problem


def _read_into(
    target: torch.Tensor, part: Part, begin: Shape, kind: torch.dtype | None = None
) -> None:
    """Fill `target` from the box of `part`, beginning at `begin`; converts as `copy_` does.

    A contiguous tensor of the saved type in host memory is filled directly.
    """
    dtype = kind or DTYPES[part.box.dtype]
    is_plain = not target.is_conj() and not target.is_neg()
    is_direct = is_plain and target.is_contiguous() and target.device.type == "cpu"
    if is_direct and target.dtype == dtype:
        _read(target, part, begin)
        return
    for offset, extent in _pieces(tuple(target.shape), _BUFFER_ELEMENTS):
        buffer = torch.empty(extent, dtype=dtype)
        at = tuple(b + o for b, o in zip(begin, offset, strict=True))
        _read(buffer, part, at)
        piece = target
        for axis, (start, size) in enumerate(zip(offset, extent, strict=True)):
            piece = piece.narrow(axis, start, size)
        piece.copy_(buffer)


def _read(memory: torch.Tensor, part: Part, begin: Shape) -> None:
    parts = 1 if memory.is_complex() else 0
    extent, begin = (*memory.shape, *[2] * parts), (*begin, *[0] * parts)
    room = (memory.data_ptr(), memory.nbytes)
    part.source.restore([], [(part.index, begin, extent, room, extent, (0,) * len(extent))])


def _pieces(extent: Shape, elements_max: int) -> Iterator[tuple[Shape, Shape]]:
    """Offset and extent of parts of an array, each with at most `elements_max` elements."""
    if prod(extent) <= elements_max:
        yield (0,) * len(extent), extent
        return
    rows = max(1, elements_max // prod(extent[1:]))
    for at in range(0, extent[0], rows):
        size = min(rows, extent[0] - at)
        # One part, unless a single row is too long.
        for offset, rest in _pieces(extent[1:], elements_max):
            yield (at, *offset), (size, *rest)


def _no_name_for(key: str, kind: str, where: str) -> CheckpointError:
    return CheckpointError(
        what=f"DCP cannot save or load {key} here",
        where=where,
        why=f"it is a {kind} tensor, a type that torch {torch.__version__} does not have",
        fix="the version of torch that saved it",
    )


def _encoded(key: str, value: object, leaves: list[Leaf]) -> notes.Json:
    """An object as JSON. Its tensors and arrays are added to `leaves`."""
    framework = Torch()

    def own(where: str, one: object) -> notes.Json | None:
        tag = framework.tag(one)
        if tag is not None:
            # DCP treats an array as an object, so the array's tensor needs a name of its own.
            name = where if tag == "$tensor" else f"{where}.array"
            leaves.append(framework.leaf(name, one))
            return {tag: name}
        noted = framework.note(one)
        return noted and {noted[0]: notes.encode(noted[1], where=where, own=own)}

    try:
        return notes.encode(value, where=key, own=own)
    except notes.NotesError as error:
        raise CheckpointError(
            what="the state holds something that a checkpoint cannot hold",
            where="PacelineWriter",
            why=str(error),
            fix="take it out of the state, or make it plain values",
        ) from error
