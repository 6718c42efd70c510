"""The plan of a state: its tensors, their places, and the values that each save reads again."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

# Any: a dict of modules is a state, and so is a dict of optimizers.
State = MutableMapping[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """This rank and its world."""

    rank: int
    world_size: int
    generation: int


@dataclass(frozen=True)
class Box:
    """The part of a tensor that this rank holds, in elements of the whole tensor."""

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
    `nbytes`.
    """

    key: str
    box: Box
    memory: object
    container: dict[object, object] | None = None  # the dict that holds it, to detect a new one
    name: object = None
    found: object = None  # the object found there: the tensor or its wrapper
    live: object = None  # set if `memory` is a copy that each save makes again
    is_frozen: bool = False  # it seldom changes; such tensors get a file of their own
    is_on_device: bool = False  # the device copies it; `memory` is on the device
    is_stepped: bool = False  # only an optimizer's step changes it
    is_parameter: bool = False  # a module's, or its optimizer state; not a declared replica
    kept: object = None  # keeps the bytes alive while a device copies them


@dataclass
class SavePlan:
    """The plan of a state. Valid as long as no object in the state is replaced."""

    leaves: list[Leaf] = field(default_factory=list[Leaf])
    links: list[tuple[dict[object, object], object, object]] = field(
        default_factory=list[tuple[dict[object, object], object, object]]
    )
    sizes: list[tuple[dict[object, object], int]] = field(
        default_factory=list[tuple[dict[object, object], int]]
    )
    # Functions without arguments that each save calls, by entry.
    values: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    constants: dict[str, object] = field(default_factory=dict[str, object])  # plain JSON
    attributes: list[tuple[object, str, object]] = field(
        default_factory=list[tuple[object, str, object]]
    )
    is_lasting: bool = True  # False: the next save needs a new plan

    def watch(self, holder: dict[object, object]) -> None:
        self.sizes.append((holder, len(holder)))
