"""What a state looks like: its tensors, where they are found, what is asked in every save."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from paceline.problem import PacelineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline._native import Device
    from paceline.restoring import Restoring

# Any: a dict of modules is one, and so is a dict of optimizers.
State = MutableMapping[str, Any]
Shape = tuple[int, ...]


class CheckpointError(PacelineError):
    """A checkpoint that cannot be saved or restored, in four parts."""


@dataclass(frozen=True)
class Place:
    """Who this rank is."""

    rank: int
    world_size: int
    generation: int


@dataclass(frozen=True)
class Box:
    """Where the part of a tensor that this rank holds lies in the whole one, in elements."""

    dtype: str  # as safetensors names it
    shape: Shape
    offset: Shape
    whole: Shape
    kind: str = ""  # the tensor's type where the file has no name for it; see docs/formats/notes.md

    @property
    def is_sharded(self) -> bool:
        return self.shape != self.whole


@dataclass(frozen=True)
class Leaf:
    """A tensor of the state. `memory` is contiguous in this process and has `data_ptr()` and
    `nbytes`."""

    key: str
    box: Box
    memory: object
    container: dict[object, object] | None = None  # where it is found, to notice another one
    name: object = None
    found: object = None  # what stands there: the tensor, or what wraps it
    live: object = None  # when `memory` is only a copy of it, to be made anew for each save
    is_frozen: bool = False  # it seldom changes, and has a place among its like
    is_on_device: bool = False  # `memory` is not this process's; the device copies it
    is_stepped: bool = False  # only an optimizer's step changes it
    is_parameter: bool = False  # a module's, or state of one; not where replicas are declared
    kept: object = None  # holds the bytes as long as a device may be copying them


@dataclass
class Plan:
    """What a state looks like, as long as nothing in it is replaced."""

    leaves: list[Leaf] = field(default_factory=list[Leaf])
    links: list[tuple[dict[object, object], object, object]] = field(
        default_factory=list[tuple[dict[object, object], object, object]]
    )
    sizes: list[tuple[dict[object, object], int]] = field(
        default_factory=list[tuple[dict[object, object], int]]
    )
    # Values that are asked for in every save, by entry: functions without arguments.
    values: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    constants: dict[str, object] = field(default_factory=dict[str, object])  # plain JSON
    attributes: list[tuple[object, str, object]] = field(
        default_factory=list[tuple[object, str, object]]
    )
    is_lasting: bool = True  # False: make another one for the next save

    def watch(self, holder: dict[object, object]) -> None:
        self.sizes.append((holder, len(holder)))


class Framework(Protocol):
    """What a framework has to know about its tensors and its objects with state."""

    # Whether a strict restore refuses a tensor of the state that was saved with another type or
    # shape. Otherwise such a tensor is replaced by a new one, unless it is a module's.
    is_exact: bool

    def tag(self, value: object) -> str | None:
        """`$tensor` or `$array` for what is saved as a tensor, as notes name it; else None."""
        ...

    def note(self, value: object) -> tuple[str, object] | None:
        """For an object of its own that is no tensor: how notes name its kind, and its content."""
        ...

    def revive(self, kind: str, content: object, there: object, work: "Restoring") -> object:
        """What `note` told of: `there` itself, to be set when the tensors are, or a new one."""
        ...

    def leaf(self, key: str, tensor: object) -> Leaf:
        """Describes a tensor to save; raises CheckpointError for a kind that cannot be saved."""
        ...

    def box(self, key: str, tensor: object) -> Box:
        """What of a tensor is in this process; raises as `leaf`."""
        ...

    def is_fillable(self, value: object) -> bool:
        """Whether it is a tensor whose elements can be written, each on its own."""
        ...

    def extent(self, tensor: object) -> tuple[int, int]:
        """Where its elements begin and end in memory; twice the same number for no elements."""
        ...

    def target(self, key: str, tensor: object) -> Leaf:
        """Describes a tensor to restore: `memory` is this process's. Raises as `leaf`."""
        ...

    def device(self) -> "Device | None":
        """Who copies leaves that are on a device; None when there are none."""
        ...

    def stream(self) -> int:
        """What the training's device works on now; docs of `_native.DeviceSaver`."""
        ...

    def refresh(self, leaves: list[Leaf]) -> None:
        """Copies `live` to `memory` for those that have one."""
        ...

    def plan_entry(self, plan: Plan, key: str, value: object, state: State) -> bool:
        """Adds an object that it knows (a module, an optimizer) to `plan`; False: not its own."""
        ...

    def restore_entry(self, work: "Restoring", key: str, value: object, state: State) -> bool: ...
    def adapted(self, value: object, decoded: object, live: object, work: "Restoring") -> object:
        """What `value` is to load, as the rest of the state was restored."""
        ...

    def is_same(self, leaf: Leaf, tensor: object) -> bool:
        """Whether `tensor` still is what `leaf` was made of, at the same place in memory."""
        ...

    def tensor_for(
        self, box: Box, there: object, *, like: object = None, tag: str = "$tensor"
    ) -> object:
        """A new tensor for a whole one that was saved with that tag, in place of `there`.

        It is cut as `there` or the parameter `like` is when that fits.
        """
        ...

    def write_back(self, leaf: Leaf) -> None:
        """After a restore: copies `memory` to `live` when they are two."""
        ...

    def random_state(self) -> dict[str, object]: ...
    def set_random_state(self, state: dict[str, object]) -> None: ...
    def expected_bytes(self, state: State) -> int:
        """What a save will need once everything in the state is there."""
        ...

    def is_replica(self, state: State) -> bool:
        """Whether all ranks hold the same tensors, by construction."""
        ...
