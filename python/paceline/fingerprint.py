"""What a data set looks like, so that a position in another one is refused and never guessed.

    before = fingerprint(dataset)
    differences(before, fingerprint(dataset))  # [] while nothing changed

It is taken from the length, from the sizes and times of files that the data set names, and from
hashes of a few records. A data set that has a method `fingerprint()` adds what that returns.
"""

import copy
import hashlib
import os
import random
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

PROBES = 4  # records that are read
PATHS = ("files", "paths", "samples")  # attributes in which data sets keep the names of files


class Sized(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def fingerprint(dataset: Sized) -> dict[str, object]:
    """Plain values that change when the data set does. Reads a few records twice at most."""
    count = len(dataset)
    places = sorted({i * (count - 1) // (PROBES - 1) for i in range(PROBES)})
    found: dict[str, object] = {"samples": count}
    files = _files(dataset, places)
    if files:
        found["files"] = files
    own = getattr(dataset, "fingerprint", None)
    if callable(own):
        found["own"] = own()
        return found  # it knows better than we
    records = _records(dataset, places)
    if records:
        found["records"] = records
    return found


def differences(saved: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """What changed, one short sentence each; nothing that only one of the two knows."""
    found: list[str] = []
    if saved.get("samples") != now.get("samples"):
        found.append(f"it has {now.get('samples')} samples and had {saved.get('samples')}")
    for kind, noun in (("files", "file"), ("records", "record"), ("own", "its own")):
        old, new = saved.get(kind), now.get(kind)
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if old is not None and new is not None and old != new:
                found.append(f"{noun}: {new}, and was {old}")
            continue
        was, is_ = cast("dict[str, object]", old), cast("dict[str, object]", new)
        for name in was:
            if name not in is_:
                found.append(f"{noun} {name} is gone")
            elif was[name] != is_[name]:
                found.append(f"{noun} {name} is {is_[name]}, and was {was[name]}")
    return found


def _files(dataset: Sized, places: Sequence[int]) -> dict[str, object]:
    """Size in bytes and time of change in nanoseconds of the files of those records."""
    for attribute in PATHS:
        held = getattr(dataset, attribute, None)
        if not isinstance(held, (list, tuple)) or not held:
            continue
        items = cast("list[object]", held)
        chosen = items if len(items) <= 64 else [items[p * len(items) // len(dataset)]
                                                for p in places]
        files: dict[str, object] = {}
        for item in chosen:
            path = cast("tuple[object]", item)[0] if isinstance(item, tuple) and item else item
            if not isinstance(path, (str, os.PathLike)):
                return {}
            try:
                about = os.stat(cast("str", path))
            except OSError:
                return {}
            name = os.path.basename(os.fspath(cast("str", path)))
            files[name] = f"{about.st_size} bytes of {about.st_mtime_ns} ns"
        return files
    return {}


def _records(dataset: Sized, places: Sequence[int]) -> dict[str, object]:
    """Hashes by number; none when a record is not the same twice, as with random transforms."""
    try:
        # Files that it opens when it is first read stay closed in the original: what is opened
        # before workers are forked would be shared by them.
        probe = copy.copy(dataset)
    except Exception:
        return {}
    found: dict[str, object] = {}
    with kept_chance():
        for place in places:
            value = digest(probe[place])
            if place == places[0] and digest(probe[place]) != value:
                return {}
            found[str(place)] = value
    return found


@contextmanager
def kept_chance() -> Iterator[None]:
    """Whatever draws random numbers inside, the generators are as before afterwards."""
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
        _chunk(total, f"{type(value).__name__}:{value!r}".encode())
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
        flat = value.detach().cpu().contiguous().flatten()
        _chunk(total, bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b"")
    elif hasattr(value, "tobytes"):  # NumPy's arrays and numbers, PIL's images
        about = (getattr(value, name, None) for name in ("dtype", "shape", "mode", "size"))
        _chunk(total, ":".join(map(str, about)).encode())
        _chunk(total, value.tobytes())
    # Of anything else only the type counts: its repr may hold an address.


def _chunk(total: "hashlib.blake2b", data: bytes) -> None:
    total.update(struct.pack("<Q", len(data)))
    total.update(data)
