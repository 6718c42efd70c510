"""Where versions for serving lie, and what a manifest says: docs/formats/serve.md."""

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline._base.whole_file import write_whole
from paceline.errors import DataError

SCHEMA = "paceline.serve/1"
_LOCK_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TEXT_BYTES_MAX = 64 << 20  # of CURRENT and of a manifest


@dataclass(frozen=True, slots=True)
class Current:
    """The version that readers serve. Pinned: newer ones do not take its place."""

    version: int
    is_pinned: bool = False


def versions_in(directory: Path) -> list[int]:
    """The numbers of the whole versions, rising."""
    try:
        names = os.listdir(directory / "versions")
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


def place_of(directory: Path, version: int) -> Path:
    return directory / "versions" / f"{version:012}"


def read_current(directory: Path) -> Current | None:
    """None: nothing was published yet. Raises DataError if the file is malformed."""
    path = directory / "CURRENT"
    try:
        told = json.loads(_read(path, _TEXT_BYTES_MAX))
        return Current(int(told["version"]), bool(told.get("pinned", False)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _malformed(path, error) from error


@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    """Holds a lock file of the directory. `paceline serve rollback` takes CURRENT.lock, too."""
    with open(os.open(directory / name, _LOCK_FLAGS, 0o644), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_current(directory: Path, current: Current) -> None:
    text = json.dumps({"version": current.version, "pinned": current.is_pinned})
    write_whole(directory / "CURRENT", text + "\n")


def read_manifest(directory: Path, version: int) -> dict[str, Any]:
    """Raises DataError if it is missing or malformed."""
    path = place_of(directory, version) / "manifest.json"
    try:
        manifest = json.loads(_read(path, _TEXT_BYTES_MAX))
        if manifest["schema"] != SCHEMA or manifest["version"] != version:
            raise ValueError(f"it is no {SCHEMA} of version {version}")
        parent = manifest["parent"]
        if parent is not None and not (type(parent) is int and 0 <= parent < version):
            raise ValueError(f"version {version} cannot follow version {parent!r}")
        return manifest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _malformed(path, error) from error


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    write_whole(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def is_whole(manifest: dict[str, Any]) -> bool:
    return manifest["parent"] is None


def write_part(path: Path, content: bytes | memoryview) -> dict[str, Any]:
    """Write one file of a version. Returns what the manifest says of it."""
    with open(path, "wb") as file:
        file.write(content)
    return {"file": path.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def read_part(folder: Path, part: dict[str, Any]) -> bytes:
    """The content of a version's file. Raises DataError if it is not what was written."""
    path = folder / os.path.basename(part["file"])
    try:
        content = _read(path, int(part["bytes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _malformed(path, error) from error
    if len(content) != part["bytes"] or hashlib.sha256(content).hexdigest() != part["sha256"]:
        raise _malformed(path, ValueError("its size or its hash is another one"))
    return content


def _read(path: Path, bytes_max: int) -> bytes:
    """A regular file. Anything else could block, or never end. ValueError: it is larger."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        if found.st_size > bytes_max:
            raise ValueError(f"it has {found.st_size} bytes, more than {bytes_max}")
        return file.read(bytes_max)


def without_old(versions: Iterable[tuple[int, bool]]) -> list[int]:
    """The versions to remove, of (number, is whole) in rising order."""
    known = list(versions)
    whole = [number for number, is_whole in known if is_whole]
    oldest = whole[-2] if len(whole) >= 2 else 0
    return [number for number, _ in known if number < oldest]


def _malformed(path: Path, error: Exception) -> DataError:
    return DataError(
        what="a version for serving cannot be read",
        where=str(path),
        why=str(error),
        fix="nothing, if newer versions come: the next whole one is taken; else publish anew",
    )
