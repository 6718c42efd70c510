"""Starts the keeper of checkpoints for a process that no launcher started."""

import contextlib
import hashlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

from paceline.directory_id import key_of
from paceline.plan import CheckpointError, Place

_PATIENCE = 1.0  # seconds; a file system answers within milliseconds


def start(directory: str) -> tuple[Place, str]:
    """Who this process is, and the socket of the keeper for `directory`, made when needed."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CheckpointError(
            what="several ranks cannot agree on a checkpoint by themselves",
            where=directory,
            why=f"WORLD_SIZE is {os.environ['WORLD_SIZE']} and nobody coordinates the ranks",
            fix="paceline run with the same flags as torchrun",
        )
    folder = _runtime_folder()
    # Every run that saves to this directory finds what the one before left in memory; one after
    # the directory was deleted does not.
    job = _job_of(directory)
    if directory.startswith("/"):
        job = _job_of(key_of(directory, folder, lambda key: _has_keeper(folder, key), _PATIENCE))
    path = str(folder / f"{job}.sock")
    if not _answers(path):
        subprocess.Popen(
            [
                _binary(),
                "keeper",
                "--socket",
                path,
                "--job-id",
                job,
                "--python",
                sys.executable,
                *_tier_flag(directory, job),
                "--log",
                str(folder / f"{job}.log"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Place(rank=0, world_size=1, generation=-1), path


def _job_of(key: str) -> str:
    return "private-" + hashlib.sha256(key.encode()).hexdigest()[:16]


def _has_keeper(folder: Path, key: str) -> bool:
    return _answers(str(folder / f"{_job_of(key)}.sock"))


def _tier_flag(directory: str, job: str) -> list[str]:
    """Where the keeper keeps on a local disk what goes to an object store."""
    if directory.startswith("/"):
        return []
    home = os.environ.get("XDG_STATE_HOME", "") or os.path.expanduser("~/.local/state")
    return ["--tier", os.path.join(home, "paceline", "tiers", job)]


def _answers(path: str) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.connect(path)
        return True
    return False


def _runtime_folder() -> Path:
    named = os.environ.get("PACELINE_RUNTIME_DIR", "")
    xdg = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(named or (f"{xdg}/paceline" if xdg else f"/tmp/paceline-{os.getuid()}"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CheckpointError(
            what=f"the runtime directory {folder} is not safe",
            where=str(folder),
            why="it is no directory of yours alone",
            fix=f"chmod 700 {folder}, or PACELINE_RUNTIME_DIR=$HOME/.paceline-run",
        )
    return folder


def _binary() -> str:
    beside = Path(sys.executable).parent / "paceline"
    named = os.environ.get("PACELINE_BIN", "")
    return named or (str(beside) if beside.exists() else "paceline")
