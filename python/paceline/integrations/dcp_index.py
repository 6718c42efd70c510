"""What a checkpoint of paceline holds, as DCP describes checkpoints."""

from collections import deque
from collections.abc import Callable
from typing import cast

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from paceline._restore.images import Images
from paceline._restore.parts import Part
from paceline._state import notes
from paceline._state.save_plan import Box
from paceline._state.torch_types import DTYPES

_TENSOR = object()  # in the place of one that nobody has asked for


class Index:
    """`places` says where each box is, by DCP's names; `value(name, read)` is what is no tensor."""

    def __init__(self, images: Images) -> None:
        images.open_others()
        self.places: dict[MetadataIndex, Part] = {}
        self._values: dict[str, object] = {}
        self._entries: dict[str, notes.Json] = {}
        self.kinds: dict[str, str] = {}  # types that the file has no name for
        self._boxes: dict[str, list[Box]] = {}
        for source in images.opened:
            saved = source.notes()
            kinds = cast("dict[str, str]", saved.get("kinds", {}))
            self.kinds.update(kinds)
            for key, (number, written) in source.boxes.items():
                box = written
                if kind_of(kinds.get(key, "")).is_complex:  # the file has one axis more
                    shape, offset, whole = (x[:-1] for x in (box.shape, box.offset, box.whole))
                    box = Box(box.dtype, shape, offset, whole)
                place = MetadataIndex(key, torch.Size(box.offset))
                if place not in self.places:  # replicas of a box are one to DCP
                    self.places[place] = Part(source, number, box)
                    self._boxes.setdefault(key, []).append(box)
            entries = cast("dict[str, notes.Json]", saved.get("entries", {}))
            self._entries = {**entries, **self._entries}
            self._values = {**_values(entries, _without_tensors), **self._values}

    def value(self, name: str, read: Callable[[str], torch.Tensor]) -> object:
        """What is no tensor, or holds some, which `read(key)` gives."""
        known = self._values[name]
        if not _has_tensor(known):
            return known

        def own(kind: str, written: notes.Json, _there: object) -> object:
            if kind not in ("$tensor", "$array"):
                return notes.decode(written, own=own)
            tensor = read(str(written))
            return tensor if kind == "$tensor" else tensor.numpy()

        its = {key: one for key, one in self._entries.items() if name.startswith(key)}
        return _values(its, own)[name]

    def metadata(self) -> Metadata:
        known: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for key, boxes in self._boxes.items():
            chunks = [
                ChunkStorageMetadata(torch.Size(box.offset), torch.Size(box.shape))
                for box in boxes
            ]
            ends = [[o + s for o, s in zip(b.offset, b.shape, strict=True)] for b in boxes]
            size = torch.Size(max(axis) for axis in zip(*ends, strict=True))
            kind = self.kinds.get(key)
            dtype = kind_of(kind) if kind else DTYPES[boxes[0].dtype]
            properties = TensorProperties(dtype=dtype)
            known[key] = TensorStorageMetadata(properties, size, chunks)
        known.update({key: BytesStorageMetadata() for key in self._values if key not in known})
        return Metadata(known, storage_data=self.places, storage_meta=StorageMeta())


def kind_of(kind: str) -> torch.dtype:
    """The type that notes call so. bool, which is never one of them, for what this torch lacks."""
    found = getattr(torch, kind, None) if kind else None
    return found if isinstance(found, torch.dtype) else torch.bool


def _values(entries: dict[str, notes.Json], own: notes.Decode) -> dict[str, object]:
    """Each entry as a whole, and by the names that DCP gives to the parts of nested dicts."""
    decoded = {key: notes.decode(value, own=own) for key, value in entries.items()}
    flat, _paths = flatten_state_dict(dict(decoded))
    return {**flat, **decoded}


def _without_tensors(kind: str, written: notes.Json, _there: object) -> object:
    """Tensors have places of their own; a generator is plain values to DCP."""
    is_tensor = kind in ("$tensor", "$array")
    return _TENSOR if is_tensor else notes.decode(written, own=_without_tensors)


def _has_tensor(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_tensor(one) for one in cast("dict[object, object]", value).values())
    if isinstance(value, (list, tuple, deque)):
        return any(_has_tensor(one) for one in cast("list[object]", value))
    return value is _TENSOR
