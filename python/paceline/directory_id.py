"""The identity of a directory of checkpoints: tells a deleted one from its successor.

A marker in the directory has a random id; docs/formats/directory.md. In a copy of the directory the
id is the same, and the marker's inode or its change time is not: nothing can copy that time.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.whole_file import write_whole

MARKER = ".paceline-id"
_ID_BYTES = 16
_MARKER_BYTES_MAX = 256
_CHECKPOINT = re.compile(r"step-\d+-g(\d{1,18})(?:-b\d+)?")


@dataclass(frozen=True)
class Identity:
    """A directory: the id in its marker, the marker itself, and the device of the directory."""

    id: str
    inode: int
    changed_ns: int
    device: int

    def key(self, directory: str) -> str:
        """What images in memory belong to."""
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
    name = secrets.token_hex(_ID_BYTES)
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


def look_up(
    directory: str, folder: Path, has_memory: Callable[[str], bool], patience: float
) -> tuple[str, int]:
    """Which images in memory belong to `directory`, and the newest generation in it.

    Returns the key under which a keeper holds the images, made of the path and the marker, and the
    highest generation of the checkpoints in the directory, 0 if there are none.

    `folder` has a note of the identity that the directory had before; `has_memory(key)` says
    whether images are kept under that key. If the directory cannot be read, or its file system is
    not mounted, it is not deleted: the key is the one before.
    """
    note = folder / f"{short_name(directory)}.directory"
    before = _recall(note)
    known = before.key(directory) if before is not None else ""
    if before is not None and not has_memory(known):
        before = None
    found: list[tuple[Identity | None, int]] = []
    errors: list[OSError] = []

    def ask() -> None:
        try:
            found.append((_identify(directory, before), _newest_generation(directory)))
        except OSError as error:
            errors.append(error)

    # Nothing ends a thread that waits for a file system.
    asking = threading.Thread(target=ask, name="directory-id", daemon=True)
    asking.start()
    asking.join(patience)
    now, newest = found[0] if found else (None, 0)
    if now is not None:
        _remember(note, now)
        return now.key(directory), newest
    if before is None:
        return directory, newest
    why = "is not mounted" if found else "cannot be read"
    print(f"paceline: {directory} {why}; what is in memory goes on", file=sys.stderr, flush=True)
    return known, newest


def _identify(directory: str, before: Identity | None) -> Identity | None:
    """The identity of the directory, with a new marker if it has none.

    None if there is no marker and the device is another one than before: it is not mounted.
    """
    now = look(directory)
    if now is not None:
        return now
    if before is not None and os.stat(directory).st_dev != before.device:
        return None
    mark(directory)
    return look(directory)


def _newest_generation(directory: str) -> int:
    """The highest generation of the checkpoints in that directory, by their names; 0: none."""
    names = map(_CHECKPOINT.fullmatch, os.listdir(directory))
    return max((int(name[1]) for name in names if name), default=0)


def _recall(note: Path) -> Identity | None:
    try:
        fields: object = json.loads(note.read_text())
        return Identity(**fields) if isinstance(fields, dict) else None  # pyright: ignore
    except (OSError, ValueError, TypeError):
        return None


def _remember(note: Path, now: Identity) -> None:
    with contextlib.suppress(OSError):  # the next run knows less
        write_whole(note, json.dumps(asdict(now)))


def short_name(text: str) -> str:
    """A name of 16 letters for a text of any length; the same in every process."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
