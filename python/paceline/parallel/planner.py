"""The planner of `paceline._native`: texts in, a checked plan out."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from paceline import _native
from paceline.parallel.errors import PlanError

T = TypeVar("T")


def choose(summary: str, cluster: str, wishes: dict[str, Any]) -> str:
    """The text of the best plan for that model on that cluster. Raises PlanError if there is
    none.
    """
    asked = json.dumps(wishes, separators=(",", ":"))
    return _checked(_native.choose_plan, summary, cluster, asked)


def check(plan: str, summary: str, cluster: str) -> None:
    """Raise PlanError if the plan is damaged, or does not fit that model and that cluster."""
    _checked(_native.check_plan, plan, summary, cluster)


def digest(plan: str) -> str:
    """The digest that ranks compare. It is equal for plans that are carried out in the same way."""
    return _checked(_native.plan_digest, plan)


def _checked(call: Callable[..., T], *texts: str) -> T:
    try:
        return call(*texts)
    except ValueError as error:
        raise PlanError.parse(str(error), "parallelize") from error
