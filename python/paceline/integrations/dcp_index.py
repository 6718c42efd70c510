"""The content of a paceline checkpoint, described as DCP's metadata."""

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

_TENSOR = object()  # placeholder for a tensor that was not asked for


class Index:
    """`places`: where each box is, by DCP's names. `value(name, read)`: any other object."""

    def __init__(self, images: Images) -> None:
        images.open_others()
        self.places: dict[MetadataIndex, Part] = {}
        self._values: dict[str, object] = {}
        self._entries: dict[str, notes.Json] = {}
        self.kinds: dict[str, str] = {}  # types without a name in the file
        self._boxes: dict[str, list[Box]] = {}
        for source in images.opened:
            saved = source.notes()
            kinds = cast("dict[str, str]", saved.get("kinds", {}))
            self.kinds.update(kinds)
            for key, (number, written) in source.boxes.items():
                box = written
                if kind_of(kinds.get(key, "")).is_complex:  # the file has one more axis
                    shape, offset, whole = (x[:-1] for x in (box.shape, box.offset, box.whole))
                    box = Box(box.dtype, shape, offset, whole)
                place = MetadataIndex(key, torch.Size(box.offset))
                if place not in self.places:  # DCP knows a replicated box once
                    self.places[place] = Part(source, number, box)
                    self._boxes.setdefault(key, []).append(box)
            entries = cast("dict[str, notes.Json]", saved.get("entries", {}))
            self._entries = {**entries, **self._entries}
            self._values = {**_values(entries, _without_tensors), **self._values}

    def value(self, name: str, read: Callable[[str], torch.Tensor]) -> object:
        """The object `name`. `read(key)` returns the tensors in it."""
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
    """The torch type of a kind in notes. torch.bool means that torch lacks the type."""
    found = getattr(torch, kind, None) if kind else None
    return found if isinstance(found, torch.dtype) else torch.bool


def _values(entries: dict[str, notes.Json], own: notes.Decode) -> dict[str, object]:
    """Each entry as a whole, and the parts of nested dicts by DCP's names."""
    decoded = {key: notes.decode(value, own=own) for key, value in entries.items()}
    flat, _paths = flatten_state_dict(dict(decoded))
    return {**flat, **decoded}


def _without_tensors(kind: str, written: notes.Json, _there: object) -> object:
    """Leaves tensors out: they have their own places. A generator is plain values in DCP."""
    is_tensor = kind in ("$tensor", "$array")
    return _TENSOR if is_tensor else notes.decode(written, own=_without_tensors)


def _has_tensor(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_tensor(one) for one in cast("dict[object, object]", value).values())
    if isinstance(value, (list, tuple, deque)):
        return any(_has_tensor(one) for one in cast("list[object]", value))
    return value is _TENSOR
