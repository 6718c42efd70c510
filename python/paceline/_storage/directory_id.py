"""The identity of a checkpoint directory: tells a deleted directory from its successor.

A marker in the directory has a random id; docs/formats/directory.md. A copy of the directory has
the same id, but another inode or change time, which cannot be copied. In an object store the marker
is an object, and the store reports its change time.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from paceline._base.whole_file import write_whole
from paceline._base.wording import say
from paceline._storage.object_store import ObjectStore, StoreError

MARKER = ".paceline-id"
_ID_BYTES = 16
_MARKER_BYTES_MAX = 256
# A file system answers within milliseconds. For an object store a client process must start.
_DIRECTORY_SECONDS = 1.0
_STORE_SECONDS = 10.0
_CHECKPOINT = re.compile(r"step-(\d{1,18})-g(\d{1,18})(?:-b(\d{1,18}))?")


@dataclass(frozen=True)
class Identity:
    """The identity of a directory: its marker's id, inode and change time, and its device.

    In an object store the inode and the device are 0.
    """

    id: str
    inode: int
    changed_ns: int
    device: int

    def key(self, directory: str) -> str:
        """The key under which images in memory are kept for this identity."""
        return f"{directory}\0{self.id}\0{self.inode}\0{self.changed_ns}"


def look(directory: str) -> Identity | None:
    """The identity of that directory. None if it has no marker; OSError if it cannot be read."""
    try:
        with open(os.path.join(directory, MARKER), "rb") as file:
            text = file.read(_MARKER_BYTES_MAX).decode("ascii", "replace").strip()
            marker = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return Identity(text, marker.st_ino, marker.st_ctime_ns, os.stat(directory).st_dev)


def mark(directory: str) -> bool:
    """Give that directory a marker if it has none. True if this call made the marker."""
    if look(directory) is not None:
        return False
    name = _new_id()
    making = os.path.join(directory, f"{MARKER}.new-{name[:8]}")
    with open(making, "xb") as file:
        file.write(name.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(making, os.path.join(directory, MARKER))  # of two that try, one succeeds
    except FileExistsError:
        return False
    finally:
        os.unlink(making)
    return True


class _Place(Protocol):
    """A place of checkpoints that `look_up` asks."""

    patience: float  # seconds; a later answer is ignored

    def ask(self, before: Identity | None) -> tuple[Identity | None, str]:
        """The place's identity, and its newest checkpoint. Makes a marker if there is none.

        The identity is None if the place is not mounted. OSError: it cannot be read.
        """
        ...

    def end(self) -> None:
        """Stop waiting for an answer."""
        ...


class _Directory:
    patience = _DIRECTORY_SECONDS

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, before: Identity | None) -> tuple[Identity | None, str]:
        now = look(self._path)
        is_mounted = before is None or os.stat(self._path).st_dev == before.device
        if now is None and is_mounted:
            mark(self._path)
            now = look(self._path)
        return now, _newest(os.listdir(self._path))

    def end(self) -> None:
        """A thread that waits for a file system cannot be ended."""


class _Bucket:
    patience = _STORE_SECONDS

    def __init__(self, place: str) -> None:
        self._store = ObjectStore(place)

    def ask(self, before: Identity | None) -> tuple[Identity | None, str]:
        found = self._store.entries()
        if MARKER not in found:
            self._store.put_new(MARKER, f"{_new_id()}\n")  # of two that try, one succeeds
            found = self._store.entries()
        if MARKER not in found:
            raise StoreError("away", "it does not list what was just put there")
        text = self._store.text(MARKER)[:_MARKER_BYTES_MAX].strip()
        return Identity(text, 0, found[MARKER], 0), _newest(found)

    def end(self) -> None:
        self._store.end()


@dataclass(frozen=True)
class _Note:
    """What the last run noted: the identity, and the key of its images."""

    identity: Identity
    key: str


def look_up(
    directory: str,
    folder: Path,
    has_memory: Callable[[str], bool],
    patience: float | None = None,
) -> tuple[str, str | None]:
    """The key of the images in memory that belong to `directory`, and its newest checkpoint.

    Returns the key, made of path and marker, under which a keeper holds the images, and the name of
    the checkpoint that was saved last: "" if there is none, None if the directory cannot be read.

    `folder` has a note of the directory's former identity. `has_memory(key)` says whether images
    exist under a key. If the directory cannot be read or its file system is not mounted, it counts
    as not deleted, and the key stays the same. A run that never could read the directory keeps its
    images under the path alone; the next run finds them there.
    """
    note = folder / f"{short_name(directory)}.directory"
    before = _recall(note)
    if before is not None and not has_memory(before.key):
        before = None
    place: _Place = _Directory(directory) if directory.startswith("/") else _Bucket(directory)
    found: list[tuple[Identity | None, str]] = []
    errors: list[OSError] = []

    def ask() -> None:
        try:
            found.append(place.ask(before.identity if before is not None else None))
        except OSError as error:
            errors.append(error)

    asking = threading.Thread(target=ask, name="directory-id", daemon=True)
    asking.start()
    asking.join(place.patience if patience is None else patience)
    now, newest = found[0] if found else (None, None)
    place.end()
    if now is not None:
        key = now.key(directory)
        if before is None and has_memory(directory):
            key = directory
        elif before is not None and before.identity.key(directory) == key:
            key = before.key
        _remember(note, _Note(now, key))
        return key, newest
    if before is None:
        return directory, newest
    why = "is not mounted" if found else "cannot be read"
    told = f" ({errors[0].strerror or errors[0]})" if errors else ""
    say(f"{directory} {why}{told}; training goes on from memory")
    return before.key, None


def _new_id() -> str:
    return secrets.token_hex(_ID_BYTES)


def _newest(listed: Iterable[str]) -> str:
    """The checkpoint among these names that was saved last; "" if there is none."""
    return max(filter(order_of, listed), key=order_of, default="")


def order_of(name: str) -> tuple[int, ...]:
    """The sort key of a checkpoint's name: generation, branch, step; () for other names."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[2]), int(found[3] or 0), int(found[1])) if found else ()


def _recall(note: Path) -> _Note | None:
    try:
        fields: dict[str, Any] = json.loads(note.read_text())
        return _Note(Identity(**fields["identity"]), str(fields["key"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remember(note: Path, now: _Note) -> None:
    with contextlib.suppress(OSError):  # without the note the next run only knows less
        write_whole(note, json.dumps(asdict(now)))


def short_name(text: str) -> str:
    """A name of 16 letters for a text of any length; the same in every process."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
