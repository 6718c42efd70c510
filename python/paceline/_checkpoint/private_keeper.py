"""Starts the checkpoint keeper for ranks that paceline did not start."""

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from paceline._base import launch
from paceline._base.whole_file import write_whole
from paceline._checkpoint.foreign_world import Own, find_group, launcher, meet
from paceline._checkpoint.link import Fields, Keeper, Link
from paceline._rank import progress
from paceline._state.save_plan import Place
from paceline._storage.directory_id import look_up, short_name
from paceline.errors import CheckpointError, DataError

_START_SECONDS = 60.0


def start(directory: str, terms: Fields) -> Keeper:
    """Start the keeper of this directory's checkpoints, unless one runs."""
    group = find_group(directory)
    folder = _runtime_folder()
    words: Fields = {"launcher": launcher()}
    if group is None:
        key, newest = _key(directory, folder)
        words |= _seen(newest)
        path = _keeper(directory, folder, key)
        place = Place(rank=0, world_size=1, generation=-1)
        return Keeper(place, path, words, partial(_spawn_keeper, directory, path, key))
    # Rank 0 decides for all ranks, on all hosts, which directory it is.
    key, newest = _key_of_launcher(directory, folder) if group.rank == 0 else ("", None)
    own = Own(directory, terms, folder, key, newest)
    world = meet(group, own, lambda lead: _lead(directory, key, lead))
    words["world"] = world.words
    words |= _seen(world.in_directory)
    path = _keeper(directory, folder, world.key, starts=world.starts_keeper)
    place = Place(rank=group.rank, world_size=group.size, generation=-1)
    # With several hosts, the keepers share credentials that one keeper cannot make again.
    has_one_host = "join" not in world.words
    revive = partial(_spawn_keeper, directory, path, world.key) if has_one_host else None
    return Keeper(place, path, words, revive)


def _seen(newest: str | None) -> Fields:
    """The newest checkpoint in the directory, as a field for the keeper; empty if unknown."""
    return {} if newest is None else {"in_directory": newest}


def _key(directory: str, folder: Path) -> tuple[str, str | None]:
    """The key of the images in memory for this directory, and its newest checkpoint.

    See `look_up`. A later run on the same directory has the same key and finds the images. A
    directory that was deleted and made again has another key.
    """
    return look_up(directory, folder, lambda key: _has_images(folder, key))


def _key_of_launcher(directory: str, folder: Path) -> tuple[str, str | None]:
    """The same for ranks of a launcher. Ranks that the launcher restarts keep their key.

    So they restore from memory, even if the directory was deleted meanwhile.
    """
    note = folder / f"{short_name(f'{directory} {launcher()}')}.key"
    with contextlib.suppress(OSError):
        key = note.read_text()
        if _has_keeper(folder, key):
            return key, None  # a restart of the same job: nothing is compared
    key, newest = _key(directory, folder)
    with contextlib.suppress(OSError):  # without the note, a restart compares again
        write_whole(note, key)
    return key, newest


def _keeper(directory: str, folder: Path, key: str, *, starts: bool = True) -> str:
    """The keeper's socket. One rank of each host starts the keeper; the others wait for it."""
    path = str(folder / f"{_job_of(key)}.sock")
    if starts:
        _spawn_keeper(directory, path, key)
    return path


def _spawn_keeper(directory: str, path: str, key: str) -> None:
    """Start a keeper if none answers. If two are started, one ends by itself."""
    if not _answers(path):
        job = _job_of(key)
        _spawn(path, job, "--python", sys.executable, *_tier_flag(directory, job))


def _spawn(path: str, job: str, *flags: str) -> None:
    log = f"{path.removesuffix('.sock')}.log"
    binary = launch.binary()
    try:
        subprocess.Popen(
            [binary, "keeper", "--socket", path, "--job-id", job, *flags, "--log", log],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        is_limit = error.errno in (errno.EAGAIN, errno.ENOMEM)
        raise CheckpointError(
            what="the keeper that holds what this rank saves cannot be started",
            where=binary,
            why=error.strerror or str(error),
            fix="allow this user more processes (ulimit -u) or memory"
            if is_limit
            else "install paceline in this interpreter; or PACELINE_BIN=PATH of its program",
        ) from error


def find_leases(name: str) -> str:
    """The socket of the lease ledger, for ranks of another launcher on this host."""
    if not launch.has_one_host():
        raise DataError(
            what="ranks on several hosts can share a data set only under paceline run",
            where=f"the data set {name}",
            why=f"WORLD_SIZE is {progress.world_size()}, LOCAL_WORLD_SIZE is another number, "
                "and no process has the ledger of all hosts",
            fix="start the ranks by `paceline run`, with the same flags as torchrun",
        )
    path, folder = _start_leases()
    launch.keep_leases(path, folder)
    return path


def _start_leases() -> tuple[str, str]:
    """The socket of this launcher's ledger on this host, and its folder."""
    who = launcher()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    name = f"{who['pid']}:{who['start']}"
    job = "leases-" + short_name(f"{boot_id} {name}")
    path = str(_runtime_folder() / f"{job}.sock")
    folder = str(launch.state_dir() / "leases" / job)
    if _answers(path):
        return path, folder
    _spawn(path, job, "--leases", folder, "--launcher", name)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(path):
        if time.monotonic() > deadline:
            raise DataError(
                what="the process that manages this rank's leases does not answer",
                where=path,
                why=f"no process listens on that socket after {_START_SECONDS:.0f} s",
                fix=f"look at {path.removesuffix('.sock')}.log",
            )
        time.sleep(0.02)
    return path, folder


def _job_of(key: str) -> str:
    return "private-" + short_name(key)


def _has_keeper(folder: Path, key: str) -> bool:
    return _answers(str(folder / f"{_job_of(key)}.sock"))


def _has_images(folder: Path, key: str) -> bool:
    """Whether a keeper runs, or the local disk has images that are not in the object store yet."""
    return _has_keeper(folder, key) or os.path.isdir(_tier(_job_of(key)))


def _lead(directory: str, key: str, words: Fields) -> str:
    """The join string with which other hosts' keepers connect to this host's keeper."""
    path = _keeper(directory, _runtime_folder(), key)
    return str(Link.ask(path, {"op": "lead", **words}, "leads", directory)["join"])


def _tier_flag(directory: str, job: str) -> list[str]:
    """The flag for the local disk folder that holds images until they are in an object store."""
    if directory.startswith("/"):
        return []
    return ["--tier", _tier(job)]


def _tier(job: str) -> str:
    return str(launch.state_dir() / "tiers" / job)


def _answers(path: str) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.connect(path)
        return True
    return False


def _runtime_folder() -> Path:
    named = os.environ.get("PACELINE_RUNTIME_DIR", "")
    xdg = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(named or (f"{xdg}/paceline" if xdg else f"/tmp/paceline-{os.getuid()}"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:  # for example, XDG_RUNTIME_DIR is still that of another user
        raise CheckpointError(
            what=f"the runtime directory {folder} cannot be used",
            where=str(folder),
            why=error.strerror or str(error),
            fix="PACELINE_RUNTIME_DIR=DIR, with a directory of yours on a local disk"
            + ("" if named or not xdg else "; or unset XDG_RUNTIME_DIR"),
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CheckpointError(
            what=f"the runtime directory {folder} is not safe",
            where=str(folder),
            why="it is not a directory that only you can enter",
            fix=f"chmod 700 {folder}, or PACELINE_RUNTIME_DIR=$HOME/.paceline-run",
        )
    return folder
