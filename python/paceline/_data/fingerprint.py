"""The fingerprint of a data set. A position that was saved for other data is refused.

    before = fingerprint(dataset)
    differences(before, fingerprint(dataset))  # [] while nothing changed

It is the data set's length, and the result of its method `fingerprint()` if it has one. The sources
of this package have one, with names, sizes and hashes of their files. No record is read here: that
may open a file in the rank, and forked workers would share its position. `likeness.py` reads
records for loaders that ask for it.
"""

import hashlib
import os
import random
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

PATHS = ("files", "paths", "samples")  # attributes in which data sets keep file names
HASHED_MAX = 64  # files of a data set that are hashed; of a longer list, evenly spread ones
_END_BYTES = 64 << 10  # bytes read at the start, the middle and the end of a file
_OLD_FILE = re.compile(r"(\d+) bytes of \d+ ns")  # old format, without hashes


class Sized(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def fingerprint(dataset: Sized, *, names_files: bool = False) -> dict[str, object]:
    """Plain values (length, hashes) that change when the data set changes.

    With `names_files`, also the files that an attribute of the data set names.
    """
    found: dict[str, object] = {"samples": len(dataset)}
    own = getattr(dataset, "fingerprint", None)
    if callable(own):
        found["own"] = own()
    elif names_files and (files := _files(dataset)):
        found["files"] = files
    return found


def differences(saved: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """What changed, one short sentence each. Keys that only one side has are ignored."""
    found: list[str] = []
    if saved.get("samples") != now.get("samples"):
        found.append(f"it has {now.get('samples')} samples and had {saved.get('samples')}")
    for kind, noun in (("files", "file "), ("records", "record "), ("own", "")):
        old, new = saved.get(kind), now.get(kind)
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if old is not None and new is not None and old != new:
                found.append(f"its fingerprint() is {new}, and was {old}")
            continue
        was, is_ = cast("dict[str, object]", old), cast("dict[str, object]", new)
        for name in was:
            if name not in is_:
                found.append(f"{noun}{name} is gone")
            elif told := _difference(was[name], is_[name]):
                found.append(f"{noun}{name} {told}")
    old, new = saved.get("sets"), now.get("sets")
    if isinstance(old, Mapping) and isinstance(new, Mapping):  # the parts of a mixture
        members = cast("dict[str, dict[str, object]]", new)
        for name, was in cast("dict[str, dict[str, object]]", old).items():
            found += [f"{name}: {one}" for one in differences(was, members.get(name, {}))]
    return found


def _difference(old: object, new: object) -> str:
    """What changed in one entry; "" if it is the same."""
    was, is_ = _file_of(old), _file_of(new)
    if was is None or is_ is None:
        return f"is {new}, and was {old}" if old != new else ""
    if was[0] != is_[0]:
        return f"has {is_[0]} bytes, and had {was[0]}"
    if was[1] and is_[1] and was[1] != is_[1]:
        return f"has as many bytes, {was[0]}, but other ones"
    return ""


def _file_of(entry: object) -> tuple[int, str] | None:
    """The size of a file, and the hash of its ends ("" if there is none)."""
    if isinstance(entry, str) and (old := _OLD_FILE.fullmatch(entry)):
        return int(old[1]), ""
    if isinstance(entry, Mapping):
        fields = cast("Mapping[str, object]", entry)
        if isinstance(size := fields.get("bytes"), int) and fields.keys() <= {"bytes", "ends"}:
            return size, str(fields.get("ends", ""))
    return None


def files_fingerprint(paths: Sequence[str], *, numbered: bool = True) -> dict[str, object]:
    """Size of each file and a hash of its ends, by its name and place in the list.

    Times are left out: a copy of the data on another host has other times.
    """
    last = len(paths) - 1
    hashed = set(range(len(paths)))
    if len(paths) > HASHED_MAX:
        hashed = {i * last // (HASHED_MAX - 1) for i in range(HASHED_MAX)}
    found: dict[str, object] = {}
    for number, path in enumerate(paths):
        name = os.path.basename(path)
        about: dict[str, object] = {"bytes": os.stat(path).st_size}
        if number in hashed:
            about["ends"] = _ends(path)
        found[f"{number}:{name}" if numbered else name] = about
    return found


def _ends(path: str) -> str:
    """A hash of the first, middle and last bytes of a file; of all bytes of a short one."""
    total = hashlib.blake2b(digest_size=8)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        places = (0, (size - _END_BYTES) // 2, size - _END_BYTES)
        for place in places if size > 3 * _END_BYTES else (0,):
            file.seek(place)
            total.update(file.read(_END_BYTES if size > 3 * _END_BYTES else size))
    return total.hexdigest()


def _files(dataset: Sized) -> dict[str, object]:
    """Fingerprint of the files named by an attribute; {} if there is none or one is unreadable."""
    for attribute in PATHS:
        held = getattr(dataset, attribute, None)
        if not isinstance(held, (list, tuple)) or not held:
            continue
        paths: list[str] = []
        items = cast("list[object]", held)
        most = min(len(items), HASHED_MAX)
        for item in (items[i * (len(items) - 1) // max(1, most - 1)] for i in range(most)):
            path = cast("tuple[object]", item)[0] if isinstance(item, tuple) and item else item
            if not isinstance(path, (str, os.PathLike)):
                return {}
            paths.append(os.fspath(cast("str", path)))
        try:
            return files_fingerprint(paths, numbered=False)
        except OSError:
            return {}
    return {}


@contextmanager
def kept_chance() -> Iterator[None]:
    """Restores the generators of random numbers at the end of the block."""
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    python = random.getstate()
    of_torch = torch.get_rng_state() if torch is not None else None
    of_numpy = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if torch is not None:
            torch.set_rng_state(of_torch)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


def digest(value: object) -> str:
    """16 hexadecimal digits of a record: numbers, text, bytes, arrays, images, containers."""
    total = hashlib.blake2b(digest_size=8)
    _feed(total, value)
    return total.hexdigest()


def _feed(total: "hashlib.blake2b", value: object) -> None:
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        _chunk(total, f"{type(value).__name__}:{value!r}".encode(errors="surrogatepass"))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _chunk(total, b"bytes")
        _chunk(total, bytes(value))
    elif isinstance(value, Mapping):
        items = list(cast("Mapping[object, object]", value).items())
        _chunk(total, f"mapping:{len(items)}".encode())
        for key, item in items:
            _feed(total, key)
            _feed(total, item)
    elif isinstance(value, (list, tuple)):
        several = cast("Sequence[object]", value)
        _chunk(total, f"sequence:{len(several)}".encode())
        for item in several:
            _feed(total, item)
    else:
        _feed_array(total, value)


def _feed_array(total: "hashlib.blake2b", value: Any) -> None:
    torch: Any = sys.modules.get("torch")
    _chunk(total, type(value).__name__.encode())
    if torch is not None and isinstance(value, torch.Tensor):
        _chunk(total, f"{value.dtype}:{tuple(value.shape)}".encode())
        if value.layout is not torch.strided:
            value = value.detach().to_dense()
        flat = value.detach().cpu().contiguous().flatten()
        _chunk(total, bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b"")
    elif hasattr(value, "tobytes"):  # NumPy's arrays and numbers, PIL's images
        about = (getattr(value, name, None) for name in ("dtype", "shape", "mode", "size"))
        _chunk(total, ":".join(map(str, about)).encode())
        if getattr(getattr(value, "dtype", None), "hasobject", False):
            _feed(total, value.tolist())  # the bytes are addresses, which differ between processes
        else:
            _chunk(total, value.tobytes())
    # For other objects only the type counts, because their repr may hold an address.


def _chunk(total: "hashlib.blake2b", data: bytes) -> None:
    total.update(struct.pack("<Q", len(data)))
    total.update(data)
