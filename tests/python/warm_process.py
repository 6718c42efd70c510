"""Scripts in processes of their own that are forked from one with heavy libraries loaded.

To import transformers costs six seconds of CPU, and a test that kills a script and lets it go on
needs three processes. They are forked before anything but the imports has run.
"""

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline import _native

DEADLINE_SECONDS = 200.0  # of a script; only one that hangs reaches it


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a script went; a signal that ended it is negative."""

    returncode: int
    stdout: str
    stderr: str


class Warm:
    """Forks scripts: `Warm(folder, ["torch"]).run("print(1)", "word")`."""

    def __init__(self, folder: Path, modules: list[str]) -> None:
        self._folder = folder
        self._count = 0
        self._outputs: dict[int, Path] = {}
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def _ask(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def start(self, script: str, *words: str, env: dict[str, str] | None = None,
              clean: Mapping[str, str] = os.environ, cwd: Path | None = None) -> int:
        """The pid of `python script.py words`, with the environment `clean` and `env` over it.

        Without them and `cwd` it has the environment and the folder that this process has now.
        """
        self._count += 1
        output = self._folder / f"script{self._count}"
        self._ask(script=script, words=words, env={**clean, **(env or {})},
                  cwd=str(cwd or Path.cwd()), output=str(output))
        pid = self._answer()
        self._outputs[pid] = output
        return pid

    def wait(self, pid: int) -> Ended:
        assert self._process.stdout is not None
        self._ask(wait=pid)
        is_late = not select.select([self._process.stdout], [], [], DEADLINE_SECONDS)[0]
        if is_late:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(self._answer())
        output = self._outputs.pop(pid)
        ended = Ended(returncode=code, stdout=output.with_suffix(".out").read_text(),
                      stderr=output.with_suffix(".err").read_text())
        assert not is_late, f"killed after {DEADLINE_SECONDS:.0f} s: {ended}"
        return ended

    def run(self, script: str, *words: str, env: dict[str, str] | None = None) -> Ended:
        return self.wait(self.start(script, *words, env=env))

    def run_ranks(self, count: int, script: str, *words: str) -> list[Ended]:
        """A world of so many ranks, each with what torch.distributed reads."""
        from free_ports import free_port  # the process that forks has no such module

        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                  "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(count)}
        pids = [self.start(script, *words, env={**common, "RANK": str(rank)})
                for rank in range(count)]
        return [self.wait(pid) for pid in pids]

    def close(self) -> None:
        for pid in self._outputs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def warm_fixture(*modules: str) -> Callable[..., Iterator[Warm]]:
    """A fixture of a test module whose scripts load these."""

    @pytest.fixture(scope="module", name="warm")
    def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
        made = Warm(tmp_path_factory.mktemp("warm"), list(modules))
        yield made
        made.close()

    return warm


# ---- the process that forks ----


def _begin(asked: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    for fd, path in ((0, os.devnull), (1, asked["output"] + ".out"), (2, asked["output"] + ".err")):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, fd)
        os.close(opened)
    _native.prepare_end(is_quick=True)  # as paceline's own forks end
    script = asked["output"] + ".py"
    Path(script).write_text(asked["script"])
    sys.argv[1:] = asked["words"]
    runpy.run_path(script, run_name="__main__")


def _serve() -> None:
    import importlib

    for module in sys.argv[1:]:
        importlib.import_module(module)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork keeps only the thread that forks"
    gc.freeze()
    answers = os.dup(1)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if "wait" in asked:
            number = os.waitpid(asked["wait"], 0)[1]
        else:
            number = os.fork()
            if number == 0:
                os.close(answers)
                return _begin(asked)
        os.write(answers, f"{number}\n".encode())
    return None


if __name__ == "__main__":
    _serve()
