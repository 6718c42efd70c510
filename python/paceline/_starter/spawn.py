"""Starts one process: a fork of this warm interpreter, a fresh interpreter, or a program.

Steps that can fail because of the request (files, folders, programs) run before the fork, so that
the answer can say why. The child's own steps are at the end of this file.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline._base import launch
from paceline._native import prepare_end, set_command_line
from paceline._rank.bootstrap import Birth, cold_command
from paceline._rank.entry import Entry
from paceline._starter import imports
from paceline._starter.wire import Message, ProtocolError

HOW = {"fork": 1, "cold": 2, "exec": 3}

# If one of these differs between starter and rank, the fork cannot correct it.
_EARLY_VARIABLES = (
    "GLIBC_",
    "GOMP_",
    "KMP_",
    "LANG",
    "LC_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "PYTORCH_",
    "TORCH",
)
# The child or its bootstrap corrects these, or they do not matter.
_MADE_GOOD = (
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONFAULTHANDLER",
    "PYTHONUNBUFFERED",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TORCHELASTIC_",
)


class SpawnError(Exception):
    """The start failed. The text is the answer's `why`."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A `spawn` message with checked fields."""

    id: int
    generation: int
    rank: int
    local_rank: int
    page: str
    slot: int
    entry: Entry | None  # None: a program
    command: tuple[str, ...]  # of a program, else empty
    environment: dict[str, str]
    cwd: str
    stdin: str | None
    stdout: str | None
    stderr: str | None
    store_port: int
    warm: bool
    omp_threads: int | None
    cgroup: str | None  # the file that takes a process into the cgroup of the node's ranks

    @classmethod
    def parse(cls, message: Message) -> "Request":
        kind, target, args = message.text("entry"), message.text("target"), message.texts("args")
        if kind not in ("script", "module", "exec"):
            raise ProtocolError("field 'entry' is not script, module or exec")
        environment = dict(message.environment("env"))
        page, slot = message.text("page"), message.integer("slot", high=63)
        generation = message.integer("generation")
        environment[launch.PAGE] = page
        environment[launch.SLOT] = str(slot)
        environment[launch.GENERATION] = str(generation)
        error_file = message.text_or_none("error_file")
        if error_file is not None:
            environment[launch.ERROR_FILE] = error_file
        else:
            environment.pop(launch.ERROR_FILE, None)
        return cls(
            id=message.integer("id"),
            generation=generation,
            rank=message.integer("rank", high=2**31 - 1),
            local_rank=message.integer("local_rank", high=63),
            page=page,
            slot=slot,
            entry=None if kind == "exec" else Entry(kind=kind, target=target, args=tuple(args)),
            command=(target, *args) if kind == "exec" else (),
            environment=environment,
            cwd=message.text("cwd"),
            stdin=message.text_or_none("stdin"),
            stdout=message.text_or_none("stdout"),
            stderr=message.text_or_none("stderr"),
            store_port=message.integer_or_none("store_port", high=65535) or 0,
            warm=message.flag("warm"),
            omp_threads=message.integer_or_none("omp_threads", high=4096),
            cgroup=message.text_or_none("cgroup"),
        )

    def birth(self) -> Birth:
        """The bootstrap's input."""
        assert self.entry is not None
        learn = str(imports.list_path(self.entry, self.cwd))
        return Birth(entry=self.entry, store_port=self.store_port, learn=learn)


@dataclass(frozen=True, kw_only=True)
class Child:
    """The work of a forked child, done after it has left the starter's stack."""

    request: Request
    birth: Birth  # made by the starter, whose environment decides where the import list is
    files: "Files"
    base_path: tuple[str, ...]


class Files:
    """The descriptors for a new process, opened before the process exists."""

    def __init__(self, request: Request) -> None:
        self._open: list[int] = []
        try:
            self.cwd = self._add(request.cwd, os.O_RDONLY | os.O_DIRECTORY)
            self.stdin = self._input(request.stdin)
            self.stdout = self._output(request.stdout)
            self.stderr = self._output(request.stderr)
        except OSError as error:
            self.close()
            raise SpawnError(f"{error.filename}: {error.strerror}") from error

    def _input(self, path: str | None) -> int:
        if path is not None:
            try:
                # Non-blocking: opening a FIFO without a writer would block.
                fd = self._add(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                pass  # the launcher that held it has ended
            else:
                os.set_blocking(fd, True)
                return fd
        return self._add(os.devnull, os.O_RDONLY)

    def _output(self, path: str | None) -> int:
        return self._add(path or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _add(self, path: str, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._open.append(fd)
        return fd

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def why_cold(request: Request, started_with: dict[str, str]) -> str | None:
    """Why this request cannot be a fork of this process; None if it can."""
    if not request.warm or request.entry is None:
        return "a fresh interpreter was asked for"
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        return f"the starter has {len(threads)} threads, and a fork would keep only one"
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return "an import initialised CUDA in the starter"
    name = _early_difference(request.environment, started_with)
    if name is not None:
        return f"{name} differs from the starter's, and it is read before a script runs"
    found = imports.scan(request.entry, request.cwd)
    if found.sets_environment is not None and "torch" in sys.modules:
        return found.sets_environment
    folder = request.cwd
    if request.entry.kind == "script":
        target = os.path.realpath(os.path.join(request.cwd, request.entry.target))
        folder = target if os.path.isdir(target) else os.path.dirname(target)
    shadow = imports.shadowed(folder)
    if shadow is not None:
        return f"{shadow} has the name of a module that the starter has loaded"
    return None


def _early_difference(wanted: dict[str, str], have: dict[str, str]) -> str | None:
    for name in sorted(wanted.keys() | have.keys()):
        if name.startswith(_MADE_GOOD) or not name.startswith(_EARLY_VARIABLES):
            continue
        if wanted.get(name) != have.get(name):
            return name
    return None


def _join(cgroup: str, pid: int) -> None:
    """Put a rank that is just born into the cgroup of its node. 0: this process.

    A rank outside trains as well as one inside, so a failure is only told.
    """
    try:
        Path(cgroup).write_text(str(pid))
    except OSError as error:
        print(f"starter_cgroup path={cgroup} error={error.strerror}", flush=True)


def run_program(request: Request, files: Files) -> int:
    """Start a fresh interpreter or a program; returns its pid, which the caller must reap."""
    command = list(request.command)
    if request.entry is not None:
        command = cold_command(request.birth())
    elif "/" not in command[0]:
        found = shutil.which(command[0], path=request.environment.get("PATH", os.defpath))
        if found is None:
            raise SpawnError(f"{command[0]}: no such program on PATH")
    try:
        process = subprocess.Popen(
            command,
            stdin=files.stdin,
            stdout=files.stdout,
            stderr=files.stderr,
            cwd=request.cwd,
            env=request.environment,
            process_group=0,
        )
    except OSError as error:
        raise SpawnError(f"{command[0]}: {error.strerror}") from error
    if request.cgroup is not None:
        # Not in the child before its exec: Python code there is unsafe if the starter has threads.
        _join(request.cgroup, process.pid)
    # The starter reaps by pidfd. With a status set, the Popen object does not wait.
    process.returncode = 0
    return process.pid


def become_rank(child: Child, *, close: Iterable[Callable[[], object]]) -> Birth:
    """In the forked child: take the rank's descriptors, environment and folder."""
    request, files = child.request, child.files
    for action in close:
        action()
    os.setpgid(0, 0)
    if request.cgroup is not None:
        _join(request.cgroup, 0)
    for number in signal.valid_signals() - set(_IGNORED):
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number, fd in ((0, files.stdin), (1, files.stdout), (2, files.stderr)):
        os.dup2(fd, number)
    os.fchdir(files.cwd)
    files.close()
    set_by_python = os.environ.get("LC_CTYPE")
    os.environ.clear()
    os.environ.update(request.environment)
    if set_by_python is not None:
        # A fresh interpreter in the locale "C" sets it too (PEP 538). In another locale this is the
        # rank's own value, because a rank with another LC_CTYPE is not a fork.
        os.environ["LC_CTYPE"] = set_by_python
    time.tzset()
    sys.path[:] = child.base_path
    for key in [key for key, finder in sys.path_importer_cache.items() if finder is None]:
        del sys.path_importer_cache[key]  # a cached missing folder may exist now
    unbuffered = bool(request.environment.get("PYTHONUNBUFFERED"))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # Into a file Python would buffer the output, and a killed rank would lose its last
            # lines.
            reconfigure(line_buffering=True, write_through=unbuffered)
    if request.environment.get("PYTHONFAULTHANDLER"):
        import faulthandler

        faulthandler.enable()
    _refresh_modules(request)
    gc.enable()
    prepare_end(is_quick=not any(map(request.environment.get, _WATCH_THE_END)))
    set_command_line("".join(f"{word}\0" for word in _command_line(child.birth.entry)))
    return child.birth


def _command_line(entry: Entry) -> list[str]:
    """The command line with which a shell would have started the rank."""
    option = ["-m"] if entry.kind == "module" else []
    return [sys.executable, *option, entry.target, *entry.args]


# A user's profiler or allocator may have been loaded through these, and writes its report when the
# libraries are unloaded.
_WATCH_THE_END = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD")
# As Python sets them at its start.
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


# The fixed initial seed of some torch versions; others draw a seed when they are loaded.
_TORCH_CONSTANT_SEED = 67280421310721


def _refresh_modules(request: Request) -> None:
    """Reset modules that keep state of the starter to what a fresh process would have.

    `random` is not among them: Python reseeds it after a fork.
    """

    def loaded(name: str) -> Any:
        module: ModuleType | None = sys.modules.get(name)
        return module

    if (numpy_random := loaded("numpy.random")) is not None:
        numpy_random.seed()
    if (tempfile := loaded("tempfile")) is not None:
        tempfile.tempdir = None
    if (process := loaded("multiprocessing.process")) is not None:
        process.ORIGINAL_DIR = os.getcwd()
        current = process.current_process()
        current.authkey = os.urandom(32)
        current._config.pop("tempdir", None)
    if (torch := loaded("torch")) is not None:
        torch.set_num_threads(_threads(request))
        if torch.initial_seed() != _TORCH_CONSTANT_SEED:
            torch.default_generator.seed()  # the CPU's only: CUDA is not initialized yet


def _threads(request: Request) -> int:
    if request.omp_threads:
        return request.omp_threads
    try:
        return max(1, int(request.environment["OMP_NUM_THREADS"].partition(",")[0]))
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0))
