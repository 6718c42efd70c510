"""Reads checkpoints of other formats: PyTorch's pickles (`.pt`, DCP's folders) and safetensors.

Only torch's weights-only loader reads pickles: it builds tensors and plain values and refuses
anything else. An incomplete checkpoint is refused.
"""

import io
import os
import pathlib
import pickletools
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint._nested_dict import unflatten_state_dict

from paceline._base.wording import described
from paceline.errors import CheckpointError
from paceline.integrations import cover, safetensors_files


def _member(kind: object, name: str) -> object:
    """Replaces `getattr` in a pickle, with which Python writes the member of an Enum."""
    encoding = metadata._MEM_FORMAT_ENCODING  # pyright: ignore[reportPrivateUsage]
    if kind is not encoding:
        raise ValueError(f"Unsupported getattr: of {kind}")
    return encoding[name]


# Classes in DCP's .metadata that the loader does not allow by default.
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
# See torch/serialization.py: the bytes before the object in a file of the format before zip (its
# magic number, the version 1001, and the machine), and those behind it (no storages).
_BEFORE = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    b"\x80\x02M\xe9\x03."
    b"\x80\x02}X\r\x00\x00\x00little_endian\x88s."
)
_BEHIND = b"\x80\x02]."


def read(path: str) -> dict[str, object]:
    """The dict in a `.pt` file, the state in a folder of DCP, or the tensors of safetensors.

    Tensors are in memory or mapped.
    """
    _check_file(path)
    if os.path.isdir(path):
        loaded = _read_folder(path)
    elif path.endswith(".safetensors"):
        loaded = safetensors_files.read_file(path)
    else:
        loaded = _loaded(path, path, mmap=True)
    if not isinstance(loaded, dict):
        raise _refused(path, f"it holds {described(loaded)} and not a dict")
    return {str(key): value for key, value in cast("dict[object, object]", loaded).items()}


def _check_file(path: str) -> None:
    """Refuse a FIFO or a device before it is opened; a link to a regular file is followed."""
    with suppress(OSError):  # the open that follows reports the error
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _refused(path, "it is a FIFO, a socket or a device", "name a file or a folder")


def _read_folder(path: str) -> dict[str, Any]:
    if os.path.exists(os.path.join(path, ".metadata")):
        return _read_dcp(path)
    if safetensors_files.is_folder(path):
        return cast("dict[str, Any]", safetensors_files.read_folder(path))
    raise _refused(
        path,
        "it has neither .metadata, as a folder of DCP has, nor model.safetensors or its index, as"
        " one of Hugging Face has",
        "name such a folder, or a .pt or .safetensors file",
    )


def _read_dcp(path: str) -> dict[str, Any]:
    described = _described(path)
    stored = _places(path, described)
    flat: dict[str, Any] = {}
    for key, kind in described.state_dict_metadata.items():
        if isinstance(kind, metadata.TensorStorageMetadata):
            flat[key] = _tensor(path, key, kind, stored)
        else:
            flat[key] = _stored(path, _place_of(path, key, None, stored))
    paths = described.planner_data
    if not isinstance(paths, dict) or set(paths) != set(flat):
        return flat
    return cast("dict[str, Any]", unflatten_state_dict(flat, cast("Any", paths)))


# Where each chunk of a tensor, or each value, is: by name and offset.
_Places = dict[tuple[str, tuple[int, ...] | None], Any]


def _places(path: str, described: metadata.Metadata) -> _Places:
    stored = described.storage_data
    if not isinstance(stored, dict):
        raise _refused(path, ".metadata does not say where the tensors lie", _INCOMPLETE)
    return {
        (index.fqn, None if index.offset is None else tuple(index.offset)): info
        for index, info in cast("dict[Any, Any]", stored).items()
    }


def _place_of(path: str, key: str, offset: tuple[int, ...] | None, stored: _Places) -> Any:
    info = stored.get((key, offset))
    if info is None:
        part = "" if offset is None else f"the part of it that begins at {list(offset)} "
        raise _refused(path, f"{key} is not all there: {part}was not saved", _INCOMPLETE)
    return info


def _tensor(
    path: str, key: str, kind: metadata.TensorStorageMetadata, stored: _Places
) -> torch.Tensor:
    """The whole tensor, from chunks that must tile it."""
    whole = torch.empty(kind.size, dtype=kind.properties.dtype)
    if not cover.is_tiled(
        tuple(kind.size), [(tuple(one.offsets), tuple(one.sizes)) for one in kind.chunks]
    ):
        raise _refused(path, f"the parts of {key} do not make up all of it", _INCOMPLETE)
    for chunk in kind.chunks:
        info = _place_of(path, key, tuple(chunk.offsets), stored)
        value = _stored(path, info)
        if not isinstance(value, torch.Tensor) or value.shape != chunk.sizes:
            found = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise _refused(
                os.path.join(path, str(info.relative_path)),
                f"a part of {key} is {found}, and .metadata says {list(chunk.sizes)}",
                _INCOMPLETE,
            )
        target = whole
        for axis, (at, size) in enumerate(zip(chunk.offsets, chunk.sizes, strict=True)):
            target = target.narrow(axis, at, size)
        target.copy_(value)
    return whole


def _named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`call` under the name that a pickle uses for it."""

    def named(*args: Any) -> Any:
        return call(*args)

    named.__module__, named.__name__ = name.rsplit(".", 1)
    return named


@contextmanager
def _may_name(classes: list[Any]) -> Iterator[None]:
    """Within the block, torch's safe loader also allows these classes."""
    serialization: Any = torch.serialization
    if hasattr(serialization, "safe_globals"):
        with serialization.safe_globals(classes):
            yield
        return
    before = list(serialization.get_safe_globals())  # torch 2.4
    serialization.add_safe_globals(
        [_named(*one) if isinstance(one, tuple) else one for one in classes]
    )
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def _described(path: str) -> metadata.Metadata:
    place = os.path.join(path, ".metadata")
    _check_file(place)
    try:
        with open(place, "rb") as file:
            text = as_protocol_2(file.read())
    except OSError as error:
        raise _refused(place, str(error.strerror), _READABLE) from error
    except (ValueError, IndexError) as error:
        raise _refused(place, f"it is no pickle: {error}") from error
    # The loader reads only whole files, so the text is wrapped as one of the format before zip.
    whole = io.BytesIO(_BEFORE + text + _BEHIND)
    with _may_name(_OF_METADATA):
        found = _loaded(whole, place)
    if not isinstance(found, metadata.Metadata):
        raise _refused(place, f"it holds {described(found)}")
    return found


def _stored(path: str, info: Any) -> object:
    name = os.path.normpath(str(info.relative_path))
    is_altered = bool(getattr(info, "transform_descriptors", None))  # torch 2.6 and newer
    if os.path.isabs(name) or name.startswith("..") or is_altered:
        raise _refused(path, f"{info.relative_path} is another file, or is compressed")
    where = os.path.join(path, name)
    _check_file(where)
    try:
        with open(where, "rb") as file:
            file.seek(info.offset)
            text = file.read(info.length)
    except FileNotFoundError as error:
        why = ".metadata names this file, and it is not there"
        raise _refused(where, why, _INCOMPLETE) from error
    except OSError as error:
        raise _refused(where, str(error.strerror), _READABLE) from error
    if len(text) != info.length:
        end = info.offset + info.length
        raise _refused(where, f"it ends before byte {end}, which .metadata names", _INCOMPLETE)
    return _loaded(io.BytesIO(text), where)


def _loaded(file: str | io.BytesIO, where: str, *, mmap: bool = False) -> object:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a broken file causes errors of many types
        if mmap and "mmap can only be used" in str(error):
            return _loaded(file, where)
        if isinstance(error, OSError) and error.strerror:
            raise _refused(where, error.strerror, _READABLE) from error
        raise _refused(where, _reason(error)) from error


def _reason(error: Exception) -> str:
    """The sentence of a loader's error that says what was found, without its advice to trust it."""
    lines = str(error).strip().splitlines() or [repr(error)]
    if isinstance(error, (IndexError, EOFError)) or any(_NO_PICKLE in line for line in lines):
        return "no torch.save wrote it: it is empty, damaged or of another kind"
    said = next((line for line in lines if "nsupported" in line or "error:" in line), lines[0])
    return said.strip().split(" was not an allowed global")[0].rpartition("error: ")[2]


_NO_PICKLE = "Unsupported operand"  # the first byte that is no instruction of a pickle
_PLAIN = "only tensors and plain values are loaded: save it again as a dict of those"
_READABLE = "name a file or a folder that can be read here"
_INCOMPLETE = "bring all files of the folder here, or save it again"


def _refused(where: str, why: str, fix: str = _PLAIN) -> CheckpointError:
    return CheckpointError(what="the file cannot be imported", where=where, why=why, fix=fix)


def as_protocol_2(text: bytes) -> bytes:
    """The same pickle in protocol 2, the only one that the weights-only loader knows.

    Nothing is executed: opcodes are read, and written in the older form.
    """
    operations = list(pickletools.genops(text))
    ends = [at or 0 for _, _, at in operations[1:]] + [len(text)]
    out: list[tuple[bytes, str | None]] = []  # with the text that the opcode pushes
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
