"""What a checkpoint of paceline holds, as DCP describes checkpoints."""

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

from paceline import notes
from paceline.images import Images
from paceline.parts import Part
from paceline.plan import Box
from paceline.torch_types import DTYPES


class Index:
    """`places` says where each box is, `values` holds what is no tensor, by DCP's names."""

    def __init__(self, images: Images) -> None:
        images.open_others()
        self.places: dict[MetadataIndex, Part] = {}
        self.values: dict[str, object] = {}
        self.kinds: dict[str, str] = {}  # types that the file has no name for
        self._boxes: dict[str, list[Box]] = {}
        for source in images.opened:
            for key, (number, box) in source.boxes.items():
                place = MetadataIndex(key, torch.Size(box.offset))
                if place not in self.places:  # replicas of a box are one to DCP
                    self.places[place] = Part(source, number, box)
                    self._boxes.setdefault(key, []).append(box)
            saved = source.notes()
            self.kinds.update(cast("dict[str, str]", saved.get("kinds", {})))
            self.values = {**_values(saved), **self.values}

    def metadata(self) -> Metadata:
        known: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for key, boxes in self._boxes.items():
            chunks = [
                ChunkStorageMetadata(torch.Size(box.offset), torch.Size(box.shape))
                for box in boxes
            ]
            ends = [[o + s for o, s in zip(b.offset, b.shape, strict=True)] for b in boxes]
            size = torch.Size(max(axis) for axis in zip(*ends, strict=True))
            properties = TensorProperties(dtype=DTYPES[boxes[0].dtype])
            known[key] = TensorStorageMetadata(properties, size, chunks)
        known.update({key: BytesStorageMetadata() for key in self.values if key not in known})
        return Metadata(known, storage_data=self.places, storage_meta=StorageMeta())


def _values(saved: dict[str, object]) -> dict[str, object]:
    """Each entry as a whole, and by the names that DCP gives to the parts of nested dicts."""
    entries = cast("dict[str, notes.Json]", saved.get("entries", {}))
    decoded = {key: notes.decode(value, own=_without_tensors) for key, value in entries.items()}
    flat, _paths = flatten_state_dict(dict(decoded))
    return {**flat, **decoded}


def _without_tensors(kind: str, written: notes.Json, _there: object) -> object:
    """Tensors have places of their own; a generator is plain values to DCP."""
    return None if kind in ("$tensor", "$array") else notes.decode(written, own=_without_tensors)
