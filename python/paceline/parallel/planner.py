"""The planner of `paceline._native`: texts in, a checked plan out."""

import json
from collections.abc import Callable
from typing import Any, cast

from paceline import _native
from paceline.parallel.errors import PlanError

_WHERE = "parallelize"


def choose(summary: str, cluster: str, wishes: dict[str, Any]) -> str:
    """The text of the best plan for that model on that cluster. Raises PlanError without one."""
    return _call("choose_plan", summary, cluster, json.dumps(wishes, separators=(",", ":")))


def check(plan: str, summary: str, cluster: str) -> None:
    """Raises PlanError if the plan is damaged, or is none for that model and that cluster."""
    _call("check_plan", plan, summary, cluster)


def digest(plan: str) -> str:
    """What two ranks compare: the same for plans that are carried out in the same way."""
    return _call("plan_digest", plan)


def _call(name: str, *texts: str) -> Any:
    found = cast("Callable[..., Any] | None", getattr(_native, name, None))
    if found is None:
        raise PlanError(
            what="this build has no planner",
            where="paceline._native",
            why=f"it has no {name}: the library is older than the Python package",
            fix="install the package anew",
        )
    try:
        return found(*texts)
    except ValueError as error:
        raise PlanError.parse(str(error), _WHERE) from error
