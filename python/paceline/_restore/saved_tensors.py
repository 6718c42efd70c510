"""An index of a checkpoint's tensors: for each name its parts, dtype and whole shape.

A name that this rank's image lacks opens the images of the other ranks.
"""

from typing import cast

from paceline._base.wording import described
from paceline._restore.images import Images, Source, UnreadableError
from paceline._restore.parts import Part, cover, ends, of_one_tensor, within
from paceline._state.save_plan import Box
from paceline._state.wrapper_marks import without_marks


class SavedTensors:
    """`own`: the notes of this rank. `is_own`: the world has the size of the one that saved."""

    def __init__(self, images: Images, own: dict[str, object], *, is_own: bool) -> None:
        self._images = images
        self._own = own
        self._is_own = is_own
        self._parts: dict[str, list[Part]] = {}
        self._children: dict[str, list[str]] = {}
        self._unmarked: dict[str, str] = {}  # names with wrappers' parts, by the name without
        self._kinds: dict[int, dict[str, str]] = {}  # by source: types that the file cannot name
        self._collect()

    def open_others(self) -> bool:
        """Open the images of all other ranks. False: they were open, or there are none."""
        if not self._images.open_others():
            return False
        self._collect()
        return True

    def names(self) -> list[str]:
        """The names of all tensors in the open images."""
        return sorted(self._parts)

    def name_of(self, key: str, *, older: str) -> str:
        """The name under which the tensor `key` was saved; `key` itself if it was not.

        `older`: its name with the parts that wrappers add. Another wrapper's parts are known by
        their marks.
        """
        while True:
            for name in (key, older, self._unmarked.get(key, "")):
                if name in self._parts:
                    return name
            if not self.open_others():
                return key

    def children(self, parent: str) -> list[str]:
        """The saved tensors `parent.NAME`, as NAME."""
        return self._children.get(parent, [])

    def parts(self, key: str) -> list[Part]:
        if key not in self._parts:
            self.open_others()
        return self._parts.get(key, [])

    def whole(self, key: str) -> Box | None:
        """The box of the whole tensor `key`; None if it was not saved."""
        parts = self.parts(key)
        if not parts:
            return None
        box = parts[0].box
        kind = self.kind(key, parts)
        return Box(box.dtype, box.whole, (0,) * len(box.whole), box.whole, kind)

    @property
    def own_rank(self) -> int:
        return self._images.own.rank

    def has_all_of(self, key: str, box: Box) -> bool:
        """Whether the images hold every element of the whole tensor `key`."""
        if cover(self.parts(key), box) is not None:
            return True
        return self.open_others() and cover(self.parts(key), box) is not None

    def _noted_shape(self, key: str, reached: list[int]) -> tuple[int, ...]:
        """The whole shape of `key` from the notes. `reached`: where its known parts end."""
        shapes = self._own.get("shapes", {})
        noted = shapes.get(key) if isinstance(shapes, dict) else shapes
        if noted is None or noted == []:
            return tuple(reached)
        sizes = noted if isinstance(noted, list) else []
        if len(sizes) != len(reached) or not all(
            type(size) is int and at <= size < 1 << 63
            for size, at in zip(sizes, reached, strict=True)
        ):
            rank = self._images.own.rank
            raise UnreadableError(
                f"the notes of rank {rank} give {key} the shape {described(noted)}, "
                f"and its saved parts reach to {reached}",
                rank=rank,
            )
        return tuple(sizes)

    def kind(self, key: str, parts: list[Part]) -> str:
        """The tensor's type if the file has no name for it, else ""."""
        if key in self._images.own.boxes:
            return self._kinds_of(self._images.own, self._own).get(key, "")
        source = parts[0].source
        return self._kinds_of(source, None).get(key, "")

    def _kinds_of(self, source: Source, saved: dict[str, object] | None) -> dict[str, str]:
        known = self._kinds.get(source.rank)
        if known is None:
            found = (saved or source.notes()).get("kinds", {})
            known = self._kinds[source.rank] = cast("dict[str, str]", found)
        return known

    def _collect(self) -> None:
        self._parts = {}
        self._children = {}
        self._unmarked = {}
        for source in self._images.opened:
            for key, (index, box) in source.boxes.items():
                self._parts.setdefault(key, []).append(Part(source, index, box))
        for key in self._parts:
            parent, _dot, name = key.rpartition(".")
            self._children.setdefault(parent, []).append(name)
            if (plain := without_marks(key)) != key:
                # Two such names for one are none.
                self._unmarked[plain] = "" if plain in self._unmarked else key
        for key, found in self._parts.items():
            parts = of_one_tensor(found, is_own=self._is_own)
            # The whole shape of a sharded tensor cannot be found from one part.
            whole = self._noted_shape(key, ends(parts))
            self._parts[key] = [Part(p.source, p.index, within(p.box, whole)) for p in parts]
