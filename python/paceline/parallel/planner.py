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


def lacks(kind: str, model_type: str) -> str:
    """That transformers has no such plan, as one sentence; "" if it has one or is not known.

    `kind` is "tensor" or "pipeline". `paceline plan` marks its plans by the same table.
    """
    found = _native.library_plans().get(model_type)
    if found is None or found[("tensor", "pipeline").index(kind)]:
        return ""
    return f"transformers has no {kind} plan for {model_type} models"


def _checked(call: Callable[..., T], *texts: str) -> T:
    try:
        return call(*texts)
    except ValueError as error:
        raise PlanError.parse(str(error), "parallelize") from error
