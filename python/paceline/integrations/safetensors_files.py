"""Weights in safetensors: one file, or a folder as of Hugging Face and `paceline ckpt export`.

The files are mapped, so a tensor takes memory only when it is copied.
"""

import json
import os
from typing import cast

import torch

from paceline._state.torch_types import DTYPES
from paceline.errors import CheckpointError

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_HEADER_BYTES_MAX = 100_000_000  # the limit of safetensors


def is_folder(path: str) -> bool:
    """Whether the folder has weights in Hugging Face's layout."""
    return any(os.path.exists(os.path.join(path, name)) for name in (_INDEX, _SINGLE))


def read_folder(path: str) -> dict[str, torch.Tensor]:
    """All tensors of the one file, or of the files that the index names."""
    index = os.path.join(path, _INDEX)
    if not os.path.exists(index):
        return read_file(os.path.join(path, _SINGLE))
    named = _weight_map(index)
    tensors: dict[str, torch.Tensor] = {}
    for name in sorted(set(named.values())):
        where = os.path.join(path, name)
        if not os.path.exists(where):
            raise _refused(where, f"{_INDEX} names this file, and it is not there", _MISSING)
        found = read_file(where)
        for key, tensor in found.items():
            if named.get(key, name) != name or key in tensors:
                raise _refused(where, f"{key} is in this file and in another one", _WHOLE)
            tensors[key] = tensor
        for key in sorted(key for key, file in named.items() if file == name and key not in found):
            raise _refused(where, f"{_INDEX} says that {key} is in this file: it is not", _WHOLE)
    return tensors


def read_file(path: str) -> dict[str, torch.Tensor]:
    """The tensors of one file, mapped."""
    try:
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError("it is no regular file")
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head_bytes = int.from_bytes(file.read(8), "little")
            if size < 8 or head_bytes > min(size - 8, _HEADER_BYTES_MAX):
                raise ValueError("its header is longer than the file")
            head = json.loads(file.read(head_bytes))
        if not isinstance(head, dict):
            raise ValueError("its header is no object")
        storage = cast(
            "torch.UntypedStorage",
            torch.UntypedStorage.from_file(path, shared=False, nbytes=size),
        )
        mapped = torch.empty(0, dtype=torch.uint8).set_(storage)[8 + head_bytes :]
        entries = cast("dict[str, dict[str, object]]", head)
        return {
            key: _tensor(key, entry, mapped)
            for key, entry in entries.items()
            if key != "__metadata__"
        }
    except OSError as error:
        raise _refused(path, str(error.strerror), "a file that can be read") from error
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise _refused(path, f"it is no whole file of safetensors: {error}", _WHOLE) from error


def _tensor(key: str, entry: dict[str, object], mapped: torch.Tensor) -> torch.Tensor:
    begin, end = cast("list[int]", entry["data_offsets"])
    dtype = DTYPES.get(str(entry["dtype"]))
    if dtype is None:
        raise ValueError(f"{key} is of the type {entry['dtype']}, which a checkpoint cannot hold")
    shape = [int(one) for one in cast("list[int]", entry["shape"])]
    if not 0 <= begin <= end <= mapped.numel() or min(shape, default=0) < 0:
        raise ValueError(f"{key} lies outside the file")
    content = mapped[begin:end]
    if content.data_ptr() % dtype.itemsize:
        content = content.clone()
    return content.view(dtype).reshape(shape)


def _weight_map(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            named = json.load(file)["weight_map"]
        files = {str(key): str(name) for key, name in named.items()}
    except OSError as error:
        raise _refused(path, str(error.strerror), "a file that can be read") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _refused(path, f"it is no index with a weight_map: {error!r}", _WHOLE) from error
    for name in files.values():
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise _refused(path, f"{name} is no name of a file in this folder", _WHOLE)
    return files


_MISSING = "bring all files of the folder here, and import it again"
_WHOLE = "save or download it again, and import that"


def _refused(where: str, why: str, fix: str) -> CheckpointError:
    return CheckpointError(what="the file cannot be imported", where=where, why=why, fix=fix)
