"""The identity of a save: the generation of its world, its branch, and its step.

Saves are ordered by these three. A rank's branch is 0 at the start of a world and rises by one at
each save whose step is not higher than the step before. So the state that was saved last is the
newest, whatever its step.
"""

from paceline._base import arguments
from paceline._native import SavedStep

_STEP_MAX = 2**63 - 1

Order = tuple[int, int, int]


def step_of(step: object) -> int:
    """`step` as an int, from any whole number, such as NumPy's integers.

    Raises ArgumentError for anything else.
    """
    fix = "save(int(step), state)"
    return arguments.count("Checkpointer.save", "step", step, least=0, most=_STEP_MAX, fix=fix)


class Branches:
    """The saves of one rank in one world: `branches.next(step)` is the identity of the next one."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._branch = 0
        self.last = -1  # step of the save before; -1: none yet
        self.kept: SavedStep | None = None  # the newest save that is kept in memory
        self._kept_before: SavedStep | None = None

    def next(self, step: int) -> SavedStep:
        """The identity of a save of `step`. Also called for a save that is then left out."""
        if step <= self.last:
            self._branch += 1
        self.last = step
        return SavedStep(self._generation, self._branch, step)

    def keep(self, saved: SavedStep) -> None:
        """Note that `saved` is in memory."""
        self._kept_before, self.kept = self.kept, saved

    def drop(self) -> None:
        """Take back the last `keep`: its save failed later."""
        self.kept = self._kept_before


# By job, directory and generation. A Checkpointer that is reopened in the same world continues from
# here; else its saves would be older than those before.
_known: dict[tuple[str, str, int], Branches] = {}


def branches_of(job_id: str, directory: str, generation: int) -> Branches:
    """The saves of this process to that directory in that world of the job."""
    return _known.setdefault((job_id, directory, generation), Branches(generation))


def order_of(saved: SavedStep) -> Order:
    """The sort key of a save."""
    return saved.generation, saved.branch, saved.step
