"""Checkpoints of PyTorch that are pickles: `.pt` files, and DCP's folders.

Both are read by torch's weights-only loader and by nothing else: it builds tensors and plain
values, and refuses whatever else a pickle asks for. So does this.
"""

import io
import os
import pathlib
import pickletools
from typing import Any, cast

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint._nested_dict import unflatten_state_dict

from paceline.plan import CheckpointError


def _member(kind: object, name: str) -> object:
    """Stands for `getattr` in a pickle, which is how Python writes the member of an Enum."""
    encoding = metadata._MEM_FORMAT_ENCODING  # pyright: ignore[reportPrivateUsage]
    if kind is not encoding:
        raise ValueError(f"Unsupported getattr: of {kind}")
    return encoding[name]


# What DCP's .metadata is made of, beside what the loader knows.
_OF_METADATA: list[Any] = [
    (_member, "builtins.getattr"),
    metadata.Metadata,
    metadata.MetadataIndex,
    metadata.TensorStorageMetadata,
    metadata.BytesStorageMetadata,
    metadata.ChunkStorageMetadata,
    metadata.TensorProperties,
    metadata.StorageMeta,
    metadata._MEM_FORMAT_ENCODING,  # pyright: ignore[reportPrivateUsage]
    filesystem._StorageInfo,  # pyright: ignore[reportPrivateUsage]
    torch.serialization._get_layout,  # pyright: ignore[reportPrivateUsage]
    pathlib.Path,
    pathlib.PosixPath,
]
# torch/serialization.py: what stands before the object in a file of the format before zip (its
# magic number, the version 1001, and what the machine was), and behind it (no storages).
_BEFORE = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    b"\x80\x02M\xe9\x03."
    b"\x80\x02}X\r\x00\x00\x00little_endian\x88s."
)
_BEHIND = b"\x80\x02]."


def read(path: str) -> dict[str, object]:
    """The dict in a `.pt` file, or the state in a folder of DCP, tensors in memory or mapped."""
    loaded = read_folder(path) if os.path.isdir(path) else _loaded(path, path, mmap=True)
    if not isinstance(loaded, dict):
        raise _refused(path, f"it holds a {type(loaded).__name__} and not a dict")
    return {str(key): value for key, value in cast("dict[object, object]", loaded).items()}


def read_folder(path: str) -> dict[str, Any]:
    described = _described(path)
    flat: dict[str, Any] = {}
    for key, kind in described.state_dict_metadata.items():
        if isinstance(kind, metadata.TensorStorageMetadata):
            flat[key] = torch.empty(kind.size, dtype=kind.properties.dtype)
    for index, info in cast("dict[Any, Any]", described.storage_data).items():
        value = _stored(path, info)
        if not isinstance(value, torch.Tensor):
            flat[index.fqn] = value
            continue
        target = flat[index.fqn]
        for axis, (at, size) in enumerate(zip(index.offset or (), value.shape, strict=False)):
            target = target.narrow(axis, at, size)
        target.copy_(value)
    paths = described.planner_data
    if not isinstance(paths, dict) or set(paths) != set(flat):
        return flat
    return cast("dict[str, Any]", unflatten_state_dict(flat, cast("Any", paths)))


def _described(path: str) -> metadata.Metadata:
    place = os.path.join(path, ".metadata")
    try:
        with open(place, "rb") as file:
            text = as_protocol_2(file.read())
    except FileNotFoundError as error:
        raise _refused(path, "it has no .metadata, so it is no folder of DCP") from error
    except (ValueError, IndexError) as error:
        raise _refused(place, f"it is no pickle: {error}") from error
    # Only whole files are read by the loader, so it gets one, of the format before zip.
    whole = io.BytesIO(_BEFORE + text + _BEHIND)
    with torch.serialization.safe_globals(_OF_METADATA):
        found = _loaded(whole, place)
    if not isinstance(found, metadata.Metadata):
        raise _refused(place, f"it holds a {type(found).__name__}")
    return found


def _stored(path: str, info: Any) -> object:
    name = os.path.normpath(str(info.relative_path))
    if os.path.isabs(name) or name.startswith("..") or info.transform_descriptors:
        raise _refused(path, f"{info.relative_path} is another file, or is compressed")
    with open(os.path.join(path, name), "rb") as file:
        file.seek(info.offset)
        return _loaded(io.BytesIO(file.read(info.length)), os.path.join(path, name))


def _loaded(file: str | io.BytesIO, where: str, *, mmap: bool = False) -> object:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # of many kinds, when the file is broken
        if mmap and "mmap can only be used" in str(error):
            return _loaded(file, where)
        raise _refused(where, _reason(error)) from error


def _reason(error: Exception) -> str:
    """The sentence that says what was found: the loader's text is mostly advice to trust it."""
    lines = str(error).strip().splitlines() or [repr(error)]
    said = next((line for line in lines if "nsupported" in line or "error:" in line), lines[0])
    return said.strip().split(" was not an allowed global")[0].removeprefix("WeightsUnpickler ")


def _refused(where: str, why: str) -> CheckpointError:
    return CheckpointError(
        what="the file cannot be imported",
        where=where,
        why=why,
        fix="only tensors and plain values are loaded: save it again as a dict of those",
    )


def as_protocol_2(text: bytes) -> bytes:
    """The same pickle in the words of protocol 2, all that the weights-only loader knows.

    Nothing is executed here: opcodes are read, and written down in the older way.
    """
    operations = list(pickletools.genops(text))
    ends = [at or 0 for _, _, at in operations[1:]] + [len(text)]
    out: list[tuple[bytes, str | None]] = []  # with the text that an opcode pushes
    known: dict[int, str | None] = {}
    for (opcode, argument, at), end in zip(operations, ends, strict=True):
        raw, name = text[at or 0 : end], opcode.name
        if name == "PROTO":
            out.append((b"\x80\x02", None))
        elif name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"):
            out.append((_text(str(argument)), str(argument)))
        elif name == "MEMOIZE":
            known[len(known)] = out[-1][1]
            place = (len(known) - 1).to_bytes(4, "little")
            out[-1] = (out[-1][0] + b"r" + place, out[-1][1])
        elif name in ("BINGET", "LONG_BINGET") and known.get(cast("int", argument)) is not None:
            said = cast("str", known[cast("int", argument)])
            out.append((_text(said), said))
        elif name == "STACK_GLOBAL":
            (_, said), (_, module) = out.pop(), out.pop()
            if said is None or module is None:
                raise ValueError("a class without a name")
            out.append((f"c{module}\n{said}\n".encode(), None))
        elif name != "FRAME":
            out.append((raw, None))
    return b"".join(raw for raw, _ in out)


def _text(said: str) -> bytes:
    encoded = said.encode("utf-8", "surrogatepass")
    return b"X" + len(encoded).to_bytes(4, "little") + encoded
