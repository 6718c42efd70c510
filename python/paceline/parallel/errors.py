"""The errors of parallel plans, in four parts."""

from typing import Self

from paceline.errors import PacelineError


class PlanError(PacelineError, ValueError):
    """A plan that cannot be made or carried out. The next start would fail in the same way, unless
    `is_final` is false.

    >>> raise PlanError(what="no plan", where="parallelize", why="nothing fits", fix="more ranks")
    """

    is_final = True

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """The error of a text with four lines, one for each part. Another text becomes the first
        part.
        """
        parts = [one.strip() for one in text.splitlines()]
        if len(parts) != 4 or not all(parts):
            why, fix = "the planner says no more", "see docs/guides/planning.md"
            return cls(what=" ".join(parts) or "no plan", where=where, why=why, fix=fix)
        return cls(**dict(zip(("what", "where", "why", "fix"), parts, strict=True)))
