"""python -m paceline.starter: keeps an interpreter warm and forks ranks from it.

See docs/formats/starter_socket.md.
"""

import argparse
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from paceline._base.whole_file import write_whole
from paceline._rank import bootstrap, output, progress
from paceline._rank.entry import Entry
from paceline._starter import imports, spawn
from paceline._starter.imports import ImportList
from paceline._starter.server import Server, Warmth, start_time

_RETRIES_MAX = 5
# A starter that begins or leaves has the lock for milliseconds, unless a busy host pauses it there.
_LOCK_SECONDS = 60.0
# Libraries must not start threads while they load: a fork keeps only the forking thread.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's, under datasets and Ray
}


@dataclass(frozen=True, kw_only=True)
class Post:
    """The resources of a starter from its start: `Post(options=…, listener=…, …)`."""

    options: argparse.Namespace
    listener: socket.socket
    lock_fd: int
    began_with: dict[str, str]


def main(arguments: list[str] | None = None) -> None:
    """Serve until nobody needs the starter. In a forked child this runs the rank's script."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the current folder, which -m puts there
    # Not SIG_IGN: a fresh interpreter started from here would inherit it.
    signal.signal(signal.SIGINT, _ignore)
    post = _take_post(options)
    is_heard = _tell_ready(options.ready_fd)
    if post is None:
        return
    if not is_heard:
        _leave(post)  # whoever wanted it has ended, before any import
    with suppress(PermissionError):  # already a group leader, made by the parent
        os.setsid()
    # Before any import, because a logging handler keeps the stream that it finds.
    output.outlive_a_full_disk()
    tried: set[str] = set()
    server = _warm_up(post, tried)
    child = server.serve(lambda: bool(tried) and _has_new_modules(options, tried))
    if child is None:
        if not server.is_expired:
            _start_again(post, tries=0)
        _leave(post)
    birth = spawn.become_rank(child, close=[server.forget, lambda: os.close(post.lock_fd)])
    progress.restart()
    bootstrap.begin(birth)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ctrl-C is for the launcher."""


def _warm_up(post: Post, tried: set[str]) -> Server:
    os.environ.update(_ONE_THREAD)
    gc.disable()
    base_path = tuple(sys.path)
    began = time.monotonic()
    failure = _preload(post, tried)
    gc.freeze()
    warmth = Warmth(
        imports_ms=round((time.monotonic() - began) * 1000),
        failure=failure,
        started_with=post.began_with,
        base_path=base_path,
    )
    print(
        f"starter_ready pid={os.getpid()} imports_ms={warmth.imports_ms} "
        f"modules={len(sys.modules)} cold={failure or '-'}",
        flush=True,
    )
    return Server(post.listener, warmth, keep_warm=post.options.keep_warm)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m paceline.starter")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--key", default="")
    parser.add_argument("--cwd", default="/")
    parser.add_argument("--entry")
    parser.add_argument("--entry-module")
    parser.add_argument("--preload", default="")
    parser.add_argument("--keep-warm", type=float, default=0.0)
    parser.add_argument("--info")
    parser.add_argument("--ready-fd", type=int, default=-1)
    parser.add_argument("--resumed", type=int, nargs=3, default=None, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _take_post(options: argparse.Namespace) -> Post | None:
    """The lock and the listening socket; None if another starter has them."""
    began_with = _given_environment()
    if options.resumed is not None:
        lock_fd, fd, _ = options.resumed
        os.set_inheritable(lock_fd, False)
        listener = socket.socket(fileno=fd)
        listener.set_inheritable(False)
        return Post(options=options, listener=listener, lock_fd=lock_fd, began_with=began_with)
    path: str = options.socket
    lock_fd = _lock(path)
    if lock_fd is None:
        return None
    # This process has the lock, so an existing socket belongs to a dead starter.
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A Unix address holds 107 bytes, and the runtime directory's path may be longer.
    folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.umask(mask)
        os.close(folder)
    listener.listen(128)
    if options.info:
        _write_info(options)
    return Post(options=options, listener=listener, lock_fd=lock_fd, began_with=began_with)


def _given_environment() -> dict[str, str]:
    """The environment that this process was started with.

    In the locale "C", as in an image that sets no LANG, Python sets LC_CTYPE for itself (PEP 538).
    With that value each rank would seem to have another environment, and none would be a fork.
    """
    environment = dict(os.environ)
    environment.pop("LC_CTYPE", None)
    for entry in Path("/proc/self/environ").read_bytes().split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"LC_CTYPE":
            environment["LC_CTYPE"] = os.fsdecode(value)
    return environment


def _lock(path: str) -> int | None:
    """The lock of a socket's path; None if a starter holds it and listens."""
    lock_fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    patience_ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # Without a socket, the lock's holder is just starting or just ending.
            if os.path.exists(path) or time.monotonic() > patience_ends:
                os.close(lock_fd)
                return None
            time.sleep(0.01)
        else:
            return lock_fd


def _leave(post: Post) -> NoReturn:
    """End at once, so that the next starter can begin: an orderly end with torch takes long.

    The process holds nothing that needs an orderly end.
    """
    for path in (post.options.socket, post.options.info):
        if path:
            Path(path).unlink(missing_ok=True)
    post.listener.close()  # agents that had connected get an error and start another starter
    os.close(post.lock_fd)
    sys.stdout.flush()
    os._exit(0)


def _write_info(options: argparse.Namespace) -> None:
    info = {
        "schema": "paceline.starter/1",
        "pid": os.getpid(),
        "start_time": start_time(os.getpid()),
        "key": options.key,
        "socket": options.socket,
        "keep_warm": options.keep_warm,
    }
    write_whole(options.info, json.dumps(info))


def _tell_ready(fd: int) -> bool:
    """False: nobody waits for it any more."""
    if fd >= 0:
        try:
            os.write(fd, b"1")
            os.close(fd)
        except OSError as error:
            print(f"starter_ready_fd error={error.strerror}", flush=True)
            return False
    return True


def _preload(post: Post, tried: set[str]) -> str | None:
    """Load the modules that ranks will load. Returns why forks are impossible then, or None."""
    options = post.options
    entry = _entry(options)
    wanted: list[str] = [name for name in options.preload.split(",") if name]
    path: Path | None = None
    known = ImportList()
    if entry is not None:
        path = imports.list_path(entry, options.cwd)
        found = imports.scan(entry, options.cwd)
        if found.sets_environment is not None:
            print(f"starter_preload skipped={found.sets_environment!r}", flush=True)
            return None  # each start reports the error; no module is loaded
        known = ImportList.load(path) or known
        wanted += known.modules or imports.seed(found)
    tried.update(wanted)
    for name in wanted:
        if name in known.avoid or name in sys.modules:
            continue
        problem = _load(name)
        if problem is None:
            continue
        if path is not None and name not in options.preload.split(","):
            known = known.without(name, problem)
            if not known.modules:
                known = replace(known, modules=tuple(wanted))
            known.save(path)
            tries = options.resumed[2] if options.resumed is not None else 0
            if tries < _RETRIES_MAX:
                _start_again(post, tries=tries + 1)
        return f"loading {name} ahead failed: {problem}"
    return None


def _entry(options: argparse.Namespace) -> Entry | None:
    if options.entry:
        return Entry(kind="script", target=options.entry, args=())
    if options.entry_module:
        return Entry(kind="module", target=options.entry_module, args=())
    return None


def _load(name: str) -> str | None:
    """Why `name` cannot be loaded ahead. None if it was loaded or does not exist."""
    try:
        if importlib.util.find_spec(name) is None:
            return None
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A missing parent is harmless, but a half-loaded one is not.
        return None if error.name == name.partition(".")[0] else repr(error)
    except (Exception, SystemExit) as error:
        return repr(error)
    threads = len(os.listdir("/proc/self/task"))
    return None if threads == 1 else f"it starts {threads - 1} thread(s)"


def _has_new_modules(options: argparse.Namespace, tried: set[str]) -> bool:
    """Whether ranks have loaded a module that this starter has not tried to load."""
    entry = _entry(options)
    known = ImportList.load(imports.list_path(entry, options.cwd)) if entry is not None else None
    return known is not None and any(
        name not in tried and name not in known.avoid and name not in sys.modules
        for name in known.modules
    )


def _start_again(post: Post, *, tries: int) -> None:
    """Exec a fresh interpreter with the same socket and lock. Waiting agents notice nothing."""
    options = post.options
    arguments: list[str] = []
    for name in ("socket", "key", "cwd", "entry", "entry_module", "preload", "keep_warm", "info"):
        value = getattr(options, name)
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    fds = (post.lock_fd, post.listener.fileno())
    for fd in fds:
        os.set_inheritable(fd, True)
    resumed = ["--resumed", *map(str, fds), str(tries)]
    command = [sys.executable, "-m", "paceline._starter", *arguments, *resumed]
    sys.stdout.flush()
    os.chdir("/")
    os.execve(sys.executable, command, post.began_with)


if __name__ == "__main__":
    main()
