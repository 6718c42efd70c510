"""The receiver's folder belongs to its user alone."""

import os
import re
import stat

from paceline.receiver.part_file import sync_folder
from paceline.receiver.refusal import Refusal

_OWN = ("inbox.db", "lock", "parts", "token.toml")
_PART = re.compile(r"\.?[0-9a-f]{24}\.arrow(\.tmp)?")


def open_folder(folder: str) -> None:
    """Makes the folder, or checks that it is a receiver's of this user. Its mode becomes 0700.

    Raises:
        Refusal: PL-E220. The folder is another user's, or has other files in it.
    """
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        _check(folder)
    parts = os.path.join(folder, "parts")
    if not os.path.lexists(parts):
        os.mkdir(parts, 0o700)
    if not is_own_folder(parts):
        raise _refused(parts, "it is no folder of this user", "another --dir")
    sync_folder(folder)


def is_own_folder(path: str) -> bool:
    """A real folder, and no link to one, that belongs to this user."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def is_part(name: str) -> bool:
    """The name is one that `PartFile` gives to its files."""
    return _PART.fullmatch(name) is not None


def _check(folder: str) -> None:
    found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "it is no folder", "another --dir")
    if found.st_uid != os.geteuid():
        raise _refused(folder, f"it belongs to the user with the number {found.st_uid}",
                       "--dir a folder of your own")
    names = set(os.listdir(folder))
    if names and not {"lock", "parts"} <= names:
        other = sorted(names.difference(_OWN))
        raise _refused(folder, f"it has other files: {', '.join(other[:3])}"[:300],
                       "--dir a new folder")
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)


def _refused(where: str, why: str, fix: str) -> Refusal:
    return Refusal(what="the receiver cannot use this folder", where=where, why=why, fix=fix,
                   code="PL-E220")
