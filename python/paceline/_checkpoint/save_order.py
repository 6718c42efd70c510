"""The identity of a save: the generation of its world, its branch, and its step.

The order of saves is the order of these three. A rank's branch begins at 0 in each world and goes
up by one at each save whose step is not higher than the step before. So whatever number a script
gives a save, the state that was saved last is the newest.
"""

from paceline._base import arguments
from paceline._native import SavedStep

_STEP_MAX = 2**63 - 1

Order = tuple[int, int, int]


def step_of(step: object) -> int:
    """`step` as an int: whatever counts as a whole number, as NumPy's integers do.

    Raises ArgumentError for anything else.
    """
    fix = "save(int(step), state)"
    return arguments.count("Checkpointer.save", "step", step, least=0, most=_STEP_MAX, fix=fix)


class Branches:
    """The saves of one rank in one world: `branches.next(step)` names the next one."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._branch = 0
        self.last = -1  # step of the save before; -1: there was none
        self.kept: SavedStep | None = None  # the newest that something keeps
        self._kept_before: SavedStep | None = None

    def next(self, step: int) -> SavedStep:
        """Identity of the save of that step. A save that is left out counts as well."""
        if step <= self.last:
            self._branch += 1
        self.last = step
        return SavedStep(self._generation, self._branch, step)

    def keep(self, saved: SavedStep) -> None:
        """That save is in memory."""
        self._kept_before, self.kept = self.kept, saved

    def drop(self) -> None:
        """The last one that was kept is not, after all."""
        self.kept = self._kept_before


# By job, directory and generation. A Checkpointer that is closed and opened again in the same world
# goes on where it was, or its saves would be older than those before.
_known: dict[tuple[str, str, int], Branches] = {}


def branches_of(job_id: str, directory: str, generation: int) -> Branches:
    """This process's saves to that directory in that world of that job."""
    return _known.setdefault((job_id, directory, generation), Branches(generation))


def order_of(saved: SavedStep) -> Order:
    """What compares as saves do."""
    return saved.generation, saved.branch, saved.step
