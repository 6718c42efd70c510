"""`paceline run --plan`: the script has to train by a parallel plan.

A script that computes gradients before it has called `parallelize`, or ends without, would train
undivided on every rank. It is stopped at that line, before it has done a step.
"""

import functools
import sys
import sysconfig
from collections.abc import Callable
from types import FrameType
from typing import Any

from paceline._rank.hooks.on_import import when_imported
from paceline.errors import PacelineError

_FIX = "call paceline.parallel.parallelize before it, or run without --plan"
_OWN = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))

_is_planned = False


def note() -> None:
    """`parallelize` was called: the script has a plan, or an error of its own."""
    global _is_planned
    _is_planned = True


def require() -> None:
    """From now on the first backward pass is an error, unless `parallelize` was called before."""

    def watch(module: Any) -> None:
        module.backward = _after_a_plan(module.backward)

    when_imported("torch.autograd", watch)


def check_end(script: str) -> None:
    """Raises PacelineError if the script has ended without a plan."""
    if not _is_planned:
        raise _missing(f"{script}, its end", "it has ended, and never called parallelize")


def _after_a_plan(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def calls(*args: Any, **kwargs: Any) -> Any:
        if not _is_planned:
            why = "it computes gradients, and has not called parallelize"
            raise _missing(_line_of(sys._getframe(1)), why)
        return call(*args, **kwargs)

    return calls


def _line_of(frame: FrameType | None) -> str:
    """Where the script is: its innermost line that belongs to no installed package."""
    at, found = frame, frame
    while at is not None:
        if not at.f_code.co_filename.startswith(_OWN):
            found = at
            break
        at = at.f_back
    return "?" if found is None else f"{found.f_code.co_filename}, line {found.f_lineno}"


def _missing(where: str, why: str) -> PacelineError:
    what = "the job must train by a plan, and the script has none"
    return PacelineError(what=what, where=where, why=why, fix=_FIX, is_final=True)
