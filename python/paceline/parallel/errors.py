"""The errors of parallel plans, in four parts."""

from typing import Self

from paceline.problem import PacelineError


class PlanError(PacelineError, ValueError):
    """A plan that cannot be made or carried out.

    >>> raise PlanError(what="no plan", where="parallelize", why="nothing fits", fix="more ranks")
    """

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """The error that a text of four lines tells; a text of another form is its first part."""
        lines = text.splitlines() or ["no plan"]
        parts = {"where": where, "why": "the planner says no more", "fix": "see `paceline plan`"}
        for line in lines[1:]:
            label, _, rest = line.strip().partition(" ")
            if label in parts and rest.strip():
                parts[label] = rest.strip()
        return cls(what=lines[0], **parts)
