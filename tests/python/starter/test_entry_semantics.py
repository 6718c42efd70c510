"""A rank is compared with plain python: output, traceback, exit status, for many scripts."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_double import (
    DEADLINE_SECONDS,
    Outcome,
    Starter,
    plain_environment,
    starter,
    wait_until,
)

LOOK = """
import sys, os
print(sys.argv, __name__, sys.path[0], len(sys.path))
print(sorted(globals()), __spec__ and __spec__.name, __package__, type(__loader__).__name__)
print(globals().get("__file__"), globals().get("__cached__"), os.getcwd())
print(sys.modules["__main__"].__dict__ is globals(), sys.stdin.read())
print(sys.orig_argv[1:], sys.flags.safe_path, sys.flags.optimize)
"""
ERROR = "def inner():\n    raise ValueError('broken')\n\ndef outer():\n    inner()\n\nouter()\n"
GROUP = "raise ExceptionGroup('many', [ValueError(1), OSError(2, 'two')])\n"
CHAIN = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"
HOOK = """
import sys
def hook(kind, value, tb):
    print("hook", kind.__name__, value, tb.tb_frame.f_code.co_filename == __file__)
sys.excepthook = hook
1 / 0
"""
ATEXIT = """
import atexit, threading, sys
atexit.register(print, "first registered")
atexit.register(print, "last registered")
def late():
    threading.main_thread().join()
    print("thread ended")
threading.Thread(target=late).start()
sys.stdout.write("no newline at the end")
"""
UNCLOSED = """
import ctypes, os
class Thing:
    def __del__(self, write=os.write): write(1, b"deleted\\n")
thing = Thing()
file = open("/proc/self/fd/1", "a")
file.write("kept in a buffer\\n")
ctypes.CDLL(None).puts(b"kept in another one")
"""
PICKLED = """
from multiprocessing.reduction import ForkingPickler
class Thing:
    def __init__(self): self.x = 3
    def __eq__(self, other): return type(other) is Thing and other.x == self.x
data = bytes(ForkingPickler.dumps(Thing()))
print(b"__main__" in data, ForkingPickler.loads(data) == Thing(), Thing.__module__)
"""
SPAWN = """
import multiprocessing as mp, os
def work(x): return x * 2, __name__
class Thing: pass
if __name__ == "__main__":
    for method in ("spawn", "fork", "forkserver"):
        with mp.get_context(method).Pool(2) as pool:
            print(method, sorted(pool.map(work, range(3))))
"""
DATACLASS = """
import dataclasses, typing
@dataclasses.dataclass
class P:
    x: "int"
    y: typing.ClassVar[int] = 1
print(typing.get_type_hints(P), P(3))
"""
RECURSE = """
import sys
def depth():
    n, f = 0, sys._getframe()
    while f: n, f = n + 1, f.f_back
    return n
print(depth() < 30)
def down(n): return 0 if n == 0 else 1 + down(n - 1)
print(down(900))
"""

SCRIPTS = {
    "look": LOOK,
    "error": ERROR,
    "group": GROUP,
    "chain": CHAIN,
    "syntax": "x = = 1\n",
    "latin": "# -*- coding: latin-1 -*-\nprint(len('\u00e9'))\n",
    "hook": HOOK,
    "exit_0": "raise SystemExit\n",
    "exit_7": "import sys\nsys.exit(7)\n",
    "exit_text": "import sys\nsys.exit('a reason')\n",
    "exit_big": "import sys\nsys.exit(256 + 3)\n",
    "os_exit": "import os\nprint('printed', flush=True)\nos._exit(9)\n",
    "abort": "import os\nos.abort()\n",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "segfault": "import ctypes\nctypes.string_at(0)\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "sigint": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n",
    "sigterm": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "signals": "import signal\nprint([(s.name, str(signal.getsignal(s))) for s in "
    "(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)], "
    "signal.pthread_sigmask(signal.SIG_BLOCK, []))\n",
    "atexit": ATEXIT,
    "unclosed": UNCLOSED,
    "class_in_main": PICKLED,
    "spawn": SPAWN,
    "dataclass": DATACLASS,
    "recurse": RECURSE,
    "stdin": "import sys\nprint(sys.stdin.read(), sys.stdin.isatty(), sys.stdout.isatty())\n",
    "fds": "import os\nprint(sorted(f for f in os.listdir('/proc/self/fd') if int(f) > 3))\n",
    "seeded": "import random\nrandom.seed(3)\nprint(random.random())\n",
    "group_of_its_own": "import os\nprint(os.getpgrp() == os.getpid())\n",
}


def normalised(text: str) -> str:
    """Addresses differ from process to process."""
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """A starter without anything loaded ahead."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__main__.py").write_text(LOOK)
    (folder / "package" / "error.py").write_text(ERROR)
    (folder / "package" / "interrupt.py").write_text("raise KeyboardInterrupt\n")
    (folder / "package" / "spawn.py").write_text(SPAWN)
    (folder / "folder").mkdir()
    (folder / "folder" / "__main__.py").write_text(LOOK)
    (folder / "linked").mkdir()
    (folder / "linked" / "link.py").symlink_to(folder / "look.py")
    for name, text in SCRIPTS.items():
        encoding = "latin-1" if name == "latin" else "utf-8"
        (folder / f"{name}.py").write_text(text, encoding=encoding)
    with starter(folder) as running:
        yield running


def compare(bare: Starter, kind: str, target: str, *, warm: bool, args: tuple[str, ...]) -> Outcome:
    got = bare.run(kind, target, *args, warm=warm)
    command = ["-m", target] if kind == "module" else [target]
    plain = subprocess.run(
        [sys.executable, *command, *args],
        cwd=bare.folder,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        process_group=0,
        # A shell's background job (nohup, many a CI) ignores SIGINT and hands that down. Ranks
        # begin with the default, whatever started the launcher.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    status = got.status
    code = -(status & 127) if status & 127 else status >> 8
    assert (normalised(got.out), normalised(got.err), code) == (
        normalised(plain.stdout),
        normalised(plain.stderr),
        plain.returncode,
    )
    assert got.spawned["how"] == ("fork" if warm else "cold"), got.spawned
    return got


@pytest.mark.parametrize("warm", [True, False], ids=["fork", "cold"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_cannot_tell_the_difference(bare: Starter, name: str, warm: bool) -> None:
    compare(bare, "script", f"{name}.py", warm=warm, args=("--lr", "0.1", "-x"))


@pytest.mark.parametrize("warm", [True, False], ids=["fork", "cold"])
@pytest.mark.parametrize(
    "name", ["package", "package.error", "package.interrupt", "package.spawn", "look", "none.such"]
)
def test_module_cannot_tell_the_difference(bare: Starter, name: str, warm: bool) -> None:
    compare(bare, "module", name, warm=warm, args=("a", "--b"))


@pytest.mark.parametrize("warm", [True, False], ids=["fork", "cold"])
@pytest.mark.parametrize("path", ["folder", "linked/link.py", "./look.py", "none.py"])
def test_paths_of_all_kinds(bare: Starter, path: str, warm: bool) -> None:
    compare(bare, "script", path, warm=warm, args=())


def test_ps_shows_the_ranks_own_command_line(bare: Starter) -> None:
    (bare.folder / "cmdline.py").write_text(
        "print(open('/proc/self/cmdline').read().rstrip(chr(0)).split(chr(0))[1:])\n"
    )
    assert bare.run("script", "cmdline.py", "--lr", "1").out == "['cmdline.py', '--lr', '1']\n"
    long = bare.run("script", "cmdline.py", "x" * 5000)
    assert long.status == 0
    assert long.out.startswith("['cmdline.py', 'xxx")


def test_absolute_path(bare: Starter) -> None:
    compare(bare, "script", str(bare.folder / "look.py"), warm=True, args=())


def test_program_is_run_directly(bare: Starter) -> None:
    got = bare.run("exec", "sh", "-c", "echo $RANK $0; exit 3", "zero", rank=2)
    assert (got.out, got.status, got.spawned["how"]) == ("2 zero\n", 3 << 8, "exec")
    assert got.spawned["why_cold"] is None


@pytest.mark.parametrize(
    ("env", "status"),
    [({}, 7 << 8), ({"NVTX_INJECTION64_PATH": "/profiler.so"}, signal.SIGABRT)],
    ids=["alone", "under a profiler"],
)
def test_what_the_starter_has_loaded_is_not_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], status: int
) -> None:
    ahead = tmp_path / "ahead"
    ahead.mkdir()
    (ahead / "aborts.py").write_text(
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.on_exit(libc.abort, None)\n"
    )
    (tmp_path / "ends.py").write_text("print('ends')\nraise SystemExit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(ahead))
    with starter(tmp_path, "--preload", "aborts") as running:
        got = running.run("script", "ends.py", env=env)
        running.peer.send(type="bye")
        assert running.process.wait(120) == 0
    assert got.spawned["how"] == "fork", got.spawned["why_cold"]
    assert (got.out, got.status & ~128) == ("ends\n", status)


def test_prints_survive_sigkill(bare: Starter) -> None:
    (bare.folder / "print_and_die.py").write_text(
        "import os, signal\nprint('last words')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for warm in (True, False):
        got = bare.run("script", "print_and_die.py", warm=warm)
        assert (got.out, got.status) == ("last words\n", signal.SIGKILL)


def test_two_forks_draw_different_random_numbers(bare: Starter) -> None:
    (bare.folder / "draw.py").write_text(
        "import random, uuid, tempfile, os\n"
        "print(random.random(), uuid.uuid4(), next(tempfile._get_candidate_names()))\n"
    )
    first, second = (bare.run("script", "draw.py").out for _ in range(2))
    assert all(a != b for a, b in zip(first.split(), second.split(), strict=True))


def test_the_rest_of_a_failed_ranks_group_is_killed(bare: Starter) -> None:
    (bare.folder / "parent.py").write_text(
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid)\nos._exit(1)\n"
    )
    got = bare.run("script", "parent.py")
    stat = Path(f"/proc/{int(got.out)}/stat")

    def gone() -> bool:
        try:
            return stat.read_text().split()[2] in "ZX"
        except OSError:
            return True

    wait_until(gone, "the child's end")
