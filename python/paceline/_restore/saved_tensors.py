"""An index of a checkpoint's tensors: for each name its parts, dtype and whole shape.

A name that this rank's image lacks opens the images of the other ranks.
"""

from typing import cast

from paceline._restore.images import Images, Source
from paceline._restore.parts import Part, ends, of_one_tensor, within
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
        shapes = cast("dict[str, list[int]]", self._own.get("shapes", {}))
        for key, found in self._parts.items():
            parts = of_one_tensor(found, is_own=self._is_own)
            # The whole shape of a sharded tensor cannot be found from one part.
            whole = tuple(shapes.get(key) or ends(parts))
            self._parts[key] = [Part(p.source, p.index, within(p.box, whole)) for p in parts]
