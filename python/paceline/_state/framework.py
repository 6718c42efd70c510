"""What a framework (torch, NumPy) says about its tensors, so that a state can be saved."""

from typing import Protocol

from paceline._native import Device
from paceline._state.save_plan import Box, Leaf, SavePlan, State


class SavingFramework(Protocol):
    """What a save asks of a framework; `_restore.restoring.Framework` adds what a restore asks."""

    def tag(self, value: object) -> str | None:
        """`$tensor` or `$array`, as in notes, for a value saved as a tensor; else None."""
        ...

    def note(self, value: object) -> tuple[str, object] | None:
        """For a framework object that is no tensor: its kind in notes, and its content."""
        ...

    def leaf(self, key: str, tensor: object) -> Leaf:
        """Describes a tensor to save; raises CheckpointError for a kind that cannot be saved."""
        ...

    def box(self, key: str, tensor: object) -> Box:
        """The part of a tensor that is in this process. Raises as `leaf`."""
        ...

    def device(self) -> Device | None:
        """The device that copies leaves; None if there is none."""
        ...

    def stream(self) -> int:
        """The handle of the training's current stream; see `_native.DeviceSaver`."""
        ...

    def refresh(self, leaves: list[Leaf]) -> None:
        """Copies `live` to `memory`, for leaves that have a `live`."""
        ...

    def plan_entry(self, plan: SavePlan, key: str, value: object, state: State) -> bool:
        """Adds a module, optimizer or other framework object to `plan`; False: not its own."""
        ...

    def inner(self, value: object) -> object:
        """The object inside wrappers that change names only; `value` itself without any."""
        ...

    def content(self, value: object) -> object:
        """What is saved of an entry that is walked: its state_dict, or `value` itself.

        Names in a module's are those without wrappers.
        """
        ...

    def is_same(self, leaf: Leaf, tensor: object) -> bool:
        """Whether `tensor` is still what `leaf` was made of, at the same place in memory."""
        ...

    def formed(self, leaf: Leaf) -> object:
        """The tensor whose shape, type and layout each save compares; None: `is_same` does."""
        ...

    def random_state(self) -> dict[str, object]: ...
    def expected_bytes(self, state: State) -> int:
        """The bytes that a save needs once every object in the state exists."""
        ...

    def is_replica(self, state: State) -> bool:
        """Whether all ranks hold the same tensors by construction, as with DDP."""
        ...
