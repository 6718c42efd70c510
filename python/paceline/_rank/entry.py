"""Runs a script or a module as `__main__`, so that it looks like `python train.py` from inside.

The calling interpreter may have imported modules before. So this rebuilds what a script can see of
its start: argv, sys.path, a fresh `__main__`, tracebacks that begin in the script, the exit status.
"""

import builtins
import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What to run: `Entry(kind="script", target="train.py", args=("--lr", "0.1"))`."""

    kind: Literal["script", "module"]
    target: str
    args: tuple[str, ...]


_former_main: list[ModuleType] = []

# The function that the interpreter itself calls for -m.
_run_as_main: Callable[[str, bool], object] = vars(runpy)["_run_module_as_main"]
# What ends that function by SystemExit if the module cannot be run.
_EntryError: type[Exception] = vars(runpy)["_Error"]


def execute(entry: Entry, *, on_error: Callable[[BaseException], None]) -> None:
    """Run `entry`; return or raise as it does. sys.excepthook then shows only its frames.

    `on_error` gets an uncaught exception before it is printed. After this call the caller must let
    the interpreter end. sys.path must not have an entry for the script's directory yet.
    """
    _fresh_main()
    try:
        if entry.kind == "script":
            _run_script(entry)
        else:
            _run_module(entry)
    except SystemExit as end:
        if isinstance(end.__context__, _EntryError):
            on_error(_missing_entry(end.__context__))
        raise
    except BaseException as error:
        error.__traceback__ = _own_frames(error.__traceback__)
        if not isinstance(error, KeyboardInterrupt):
            on_error(error)
        _hide_frames(error)
        if isinstance(error, KeyboardInterrupt) and entry.kind == "script":
            # An exception from code given as text makes the interpreter die of SIGINT after its
            # orderly end, as a plain script does.
            exec("raise error", {"error": error})
        raise


def _fresh_main() -> None:
    # The old __main__ is kept alive: its functions may be running, and deleting it clears their
    # globals.
    _former_main.append(sys.modules["__main__"])
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__loader__ = importlib.machinery.BuiltinImporter
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    sys.modules["__main__"] = main


def _run_script(entry: Entry) -> None:
    path = entry.target
    sys.argv[:] = [path, *entry.args]
    sys.orig_argv[:] = [sys.executable, path, *entry.args]
    if os.path.isdir(path) or pkgutil.get_importer(path) is not None:
        # A directory or a zip file with a __main__.py.
        sys.path.insert(0, os.path.abspath(path))
        _call(lambda: _run_as_main("__main__", False))
        return
    code = _compile(path)
    if not os.environ.get("PYTHONSAFEPATH"):  # not the flag: the starter may have its own
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    main = sys.modules["__main__"].__dict__
    filename = _absolute(path)
    main.update(
        __file__=filename,
        __loader__=importlib.machinery.SourceFileLoader("__main__", filename),
    )
    main["__cached__"] = None
    if code is None:
        with io.open_code(filename) as file:
            source = file.read()
        _call(lambda: exec(compile(source, filename, "exec", dont_inherit=True), main))
    else:
        _call(lambda: exec(code, main))


def _absolute(path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _compile(path: str) -> CodeType | None:
    """The code of a .pyc file; None if the file is source.

    If the file does not exist, the process ends with python's message.
    """
    try:
        with io.open_code(_absolute(path)) as file:
            if not path.endswith(".pyc"):
                return None
            code: CodeType | None = vars(pkgutil)["read_code"](file)
            return code
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file {_absolute(path)!r}: "
            f"[Errno {error.errno}] {error.strerror}\n"
        )
        raise SystemExit(2) from None


def _run_module(entry: Entry) -> None:
    sys.argv[:] = ["-m", *entry.args]
    sys.orig_argv[:] = [sys.executable, "-m", entry.target, *entry.args]
    if not os.environ.get("PYTHONSAFEPATH"):  # not the flag: the starter may have its own
        sys.path.insert(0, os.getcwd())
    _call(lambda: _run_as_main(entry.target, True))


def _missing_entry(error: Exception) -> ImportError:
    """The error of a module that cannot be run. Python itself prints only its text."""
    text = str(error)
    kind = ModuleNotFoundError if "No module named" in text else ImportError
    return kind(text)


def _call(run: Callable[[], object]) -> None:
    run()


def _own_frames(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below _call and the lambda that it calls."""
    at = tb
    while at is not None:
        if at.tb_frame.f_code is _call.__code__:
            return at.tb_next.tb_next if at.tb_next is not None else None
        at = at.tb_next
    return tb


def _hide_frames(error: BaseException) -> None:
    """Print the traceback as it is now, without the launcher's frames that are added later."""
    shown = error.__traceback__
    hook = sys.excepthook

    def excepthook(
        kind: type[BaseException], value: BaseException, tb: TracebackType | None
    ) -> None:
        if value is error:
            value.__traceback__ = tb = shown
        hook(kind, value, tb)

    sys.excepthook = excepthook
