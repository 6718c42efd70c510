"""What a state looks like: its tensors, where they are found, what is asked in every save."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

# Any: a dict of modules is one, and so is a dict of optimizers.
State = MutableMapping[str, Any]
Shape = tuple[int, ...]


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
class SavePlan:
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
