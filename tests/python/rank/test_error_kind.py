"""Which exceptions come again at the next start of a script."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest
import torch
import torch.distributed as dist
from paceline._rank import error_kind
from paceline.errors import ArgumentError, CheckpointError, PacelineError
from paceline.parallel import PlanError


class Parts(TypedDict):
    what: str
    where: str
    why: str
    fix: str


FOUR: Parts = {"what": "w", "where": "x", "why": "y", "fix": "z"}


def syntax_error(path: str, text: str) -> SyntaxError:
    with pytest.raises(SyntaxError) as raised:
        compile(text, path, "exec")
    return raised.value


def test_a_file_that_cannot_be_compiled_is_final(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def f(:\n")
    assert error_kind.is_final(syntax_error(str(script), "def f(:\n"), has_stepped=True)
    # Text from the data may differ the next time.
    assert not error_kind.is_final(syntax_error("<string>", "1 +"), has_stepped=False)


def test_errors_of_paceline_say_whether_they_are_final() -> None:
    assert error_kind.is_final(PlanError(**FOUR), has_stepped=True)
    assert not error_kind.is_final(PlanError(**FOUR, is_final=False), has_stepped=True)
    assert not error_kind.is_final(CheckpointError(**FOUR), has_stepped=False)
    assert error_kind.is_final(CheckpointError(**FOUR, is_final=True), has_stepped=False)
    assert not PacelineError.is_final, "no instance changes the class"


def test_a_refused_argument_is_final_before_the_first_step() -> None:
    assert error_kind.is_final(ArgumentError(**FOUR), has_stepped=False)
    assert not error_kind.is_final(ArgumentError(**FOUR), has_stepped=True)


def test_a_missing_module_is_final_if_no_other_host_may_have_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModuleNotFoundError("No module named 'x'")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert error_kind.is_final(error, has_stepped=False)
    assert not error_kind.is_final(error, has_stepped=True)
    assert not error_kind.is_final(ImportError("libx.so: no such file"), has_stepped=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert not error_kind.is_final(error, has_stepped=False)


@pytest.mark.parametrize("error", [
    KeyError("labels"), ModuleNotFoundError("No module named 'x'"), ValueError("bad"),
    RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ArgumentError(**FOUR)])
def test_the_scripts_own_errors_are_repeatable(error: Exception) -> None:
    assert error_kind.is_repeatable(error)


@pytest.mark.parametrize("error", [
    OSError("gone"), FileNotFoundError("no"), ConnectionResetError(), TimeoutError(),
    MemoryError(), KeyboardInterrupt(), subprocess.CalledProcessError(1, "nvidia-smi"),
    dist.DistStoreError("wait"), dist.DistBackendError("NCCL"), torch.OutOfMemoryError("CUDA"),
    RuntimeError("CUDA error: device-side assert"), RuntimeError("[gloo] Connection reset"),
    CheckpointError(**FOUR), ExceptionGroup("two", [ValueError(), OSError("gone")])])
def test_errors_from_outside_are_not(error: BaseException) -> None:
    assert not error_kind.is_repeatable(error)


def chained(cause: Callable[[], object], kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as raised:
        try:
            cause()
        except Exception as error:
            raise kind("cannot load") from error
    return raised.value


def test_what_an_outside_error_causes_is_from_outside() -> None:
    assert not error_kind.is_repeatable(chained(lambda: Path("/nowhere/x").read_text(), ValueError))
    assert error_kind.is_repeatable(chained(lambda: {}["x"], ValueError))


def test_a_plain_error_that_torch_distributed_raises_is_from_outside() -> None:
    with pytest.raises((ValueError, RuntimeError)) as raised:
        dist.all_reduce(torch.ones(1))
    own = RuntimeError("no words of a network").with_traceback(raised.tb)
    assert not error_kind.is_repeatable(own)
