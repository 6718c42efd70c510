"""What a framework (torch, NumPy) says about its tensors, so that a state can be saved."""

from typing import Protocol

from paceline._native import Device
from paceline._state.save_plan import Box, Leaf, SavePlan, State


class SavingFramework(Protocol):
    """What a save asks of a framework; `_restore.restoring.Framework` adds what a restore asks."""

    def tag(self, value: object) -> str | None:
        """`$tensor` or `$array` for what is saved as a tensor, as notes name it; else None."""
        ...

    def note(self, value: object) -> tuple[str, object] | None:
        """For an object of its own that is no tensor: how notes name its kind, and its content."""
        ...

    def leaf(self, key: str, tensor: object) -> Leaf:
        """Describes a tensor to save; raises CheckpointError for a kind that cannot be saved."""
        ...

    def box(self, key: str, tensor: object) -> Box:
        """What of a tensor is in this process; raises as `leaf`."""
        ...

    def device(self) -> Device | None:
        """Who copies leaves that are on a device; None when there are none."""
        ...

    def stream(self) -> int:
        """What the training's device works on now; docs of `_native.DeviceSaver`."""
        ...

    def refresh(self, leaves: list[Leaf]) -> None:
        """Copies `live` to `memory` for those that have one."""
        ...

    def plan_entry(self, plan: SavePlan, key: str, value: object, state: State) -> bool:
        """Adds an object that it knows (a module, an optimizer) to `plan`; False: not its own."""
        ...

    def is_same(self, leaf: Leaf, tensor: object) -> bool:
        """Whether `tensor` still is what `leaf` was made of, at the same place in memory."""
        ...

    def random_state(self) -> dict[str, object]: ...
    def expected_bytes(self, state: State) -> int:
        """What a save will need once everything in the state is there."""
        ...

    def is_replica(self, state: State) -> bool:
        """Whether all ranks hold the same tensors, by construction."""
        ...
