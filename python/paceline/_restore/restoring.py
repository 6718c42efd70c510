"""Restores a state: collects the wanted tensors, finds the images that have them, copies them.

Tensors in the caller's state are filled in place. Two of them may share memory
(`"best": model.state_dict()`) but were saved with different content. So modules are filled first,
and a later tensor that shares memory with a filled one is replaced by a new tensor.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol, cast

from paceline._base.wording import described
from paceline._restore import own_tensors
from paceline._restore.borrowed import borrow
from paceline._restore.images import Images, Memory, Region, Source
from paceline._restore.parts import Part, cover, memory, region
from paceline._restore.saved_tensors import SavedTensors
from paceline._restore.wording import form_of, listed, shortened
from paceline._state import notes
from paceline._state.framework import SavingFramework
from paceline._state.save_plan import Box, Leaf, State
from paceline._state.save_planner import tensors_in
from paceline._state.stateful import has_state, holds_part, load
from paceline.errors import CheckpointError


class Framework(SavingFramework, Protocol):
    """What a framework provides for its tensors and its objects with state."""

    # True: a strict restore refuses a tensor whose type or shape differs from the saved one. False:
    # such a tensor is replaced by a new one, unless it is a module's.
    is_exact: bool

    def revive(self, kind: str, content: object, there: object, work: "Restoring") -> object:
        """The object that `note` described: `there`, set with the tensors, or a new one."""
        ...

    def is_fillable(self, value: object) -> bool:
        """Whether it is a tensor whose elements can be written one by one."""
        ...

    def extent(self, tensor: object) -> tuple[int, int]:
        """Begin and end address of its elements. Both are equal if there are none."""
        ...

    def target(self, key: str, tensor: object) -> Leaf:
        """Describes a tensor to restore: `memory` is this process's. Raises as `leaf`."""
        ...

    def restore_entry(self, work: "Restoring", key: str, value: object, state: State) -> bool: ...
    def adapted(self, value: object, decoded: object, live: object, work: "Restoring") -> object:
        """The state that `value` is to load, adapted to how the rest was restored."""
        ...

    def tensor_for(
        self, box: Box, there: object, *, like: object = None, tag: str = "$tensor"
    ) -> object:
        """A new tensor for a whole one that was saved with that tag, in place of `there`.

        It is sharded like `there` or like the parameter `like`, if that fits.
        """
        ...

    def write_back(self, leaf: Leaf) -> None:
        """After a restore: copies `memory` to `live`, if they differ."""
        ...

    def set_random_state(self, state: dict[str, object]) -> None: ...


class Restoring:
    """A restore in progress. Frameworks ask for tensors; then all are copied at once."""

    def __init__(self, framework: Framework, images: Images, *, strict: bool, size: int) -> None:
        self.own = dict(images.own.notes())
        self.strict = strict
        self.problems: list[str] = []
        self.ways_out: list[str] = []  # what the script can do about problems, where it is known
        self.left_out: list[str] = []
        self.replaced: list[str] = []
        self.after: list[Callable[[], None]] = []
        # By id(optimizer), for optimizers whose parameter groups differ from the saved ones: the
        # saved group's index for each current group (None: no single one), and the number of saved
        # groups.
        self.orders: dict[int, tuple[list[int | None], int]] = {}
        self._framework = framework
        self._images = images
        # True if this rank must ask for everything that was saved, because no other rank will.
        is_spread = bool(self.own.get("spread"))
        self._is_alone = size == 1 or is_spread
        if is_spread:  # a tensor may be in any rank's file
            images.open_others()
        self._saved_by = cast("int", self.own.get("world_size", 1))
        self._size = size
        self.saved = SavedTensors(images, self.own, is_own=self._saved_by == size)
        self._differing: set[str] = set()
        if self._saved_by != size:
            self._differing = self._find_differing()
        self.parameters: set[str] = set()  # names of modules' parameters and their optimizer state
        self.own_parameters: list[str] = []  # each rank's own: no other world size can take them
        self.of_rank_0: list[str] = []  # other differing tensors; rank 0's is used
        self._wanted: list[tuple[Leaf, list[Part]]] = []
        self._asked: set[str] = set()
        self._taken: list[tuple[int, int]] = []  # filled memory: begin and end, sorted

    @property
    def is_resized(self) -> bool:
        """Whether another number of ranks saved it."""
        return self._saved_by != self._size

    def leave_out(self, sentence: str) -> None:
        """Note a part that does not fit: an error if strict, else a line of `left_out`."""
        (self.problems if self.strict else self.left_out).append(sentence)

    def has_entry(self, key: str) -> bool:
        """Whether the notes of the checkpoint have that entry."""
        return key in cast("dict[str, notes.Json]", self.own.get("entries", {}))

    def entry(self, key: str) -> notes.Json | None:
        """The notes of that entry. None if no rank has saved it; `leave_out` has noted that."""
        if not self.has_entry(key):
            self.saved.open_others()
            if not borrow(self.own, self._images.opened[1:], key):
                self.leave_out(f"{key} was not saved")
                return None
        return cast("dict[str, notes.Json]", self.own["entries"])[key]

    def pass_over(self, begin: str) -> None:
        """Count tensors with this prefix as asked for: `leave_out` has a line for them."""
        self._asked |= {name for name in self.saved.names() if name.startswith(begin)}

    def groups(
        self,
        key: str,
        own: list[list[str]],
        live: list[list[str]],
        *,
        is_part: bool,
        now: Callable[[str], str],
    ) -> list[list[str]]:
        """The saved names of an optimizer's parameters, by group, as `now` tells them.

        A rank of a pipeline has saved only the parameters of its stage. If other stages saved some
        of `live`, the images of all ranks are searched. With `is_part`, `live` is one stage: saved
        parameters that it lacks belong to other stages.
        """
        wanted = {name for group in live for name in group}
        found = [[now(name) for name in group] for group in own]
        moved = wanted - {name for group in found for name in group}
        moved = {name for name in moved if not name.isdigit()}
        if moved and self._saved_by > 1:
            self.saved.open_others()
            for source in self._images.opened[1:]:
                constants = cast("dict[str, list[list[str]]]", source.notes().get("constants", {}))
                for mine, more in zip(found, constants.get(key, []), strict=False):
                    theirs = [name for name in map(now, more) if name in moved]
                    mine += [name for name in theirs if name not in mine]
        if is_part:
            return [[name for name in group if name in wanted] for group in found]
        return found

    def want(self, key: str, tensor: object) -> bool:
        """Plan to fill `tensor` with the saved tensor `key`.

        False if the saved tensor does not fit. The reason is then in `problems` or `left_out`.
        """
        self._asked.add(key)
        box = self._framework.box(key, tensor)
        self._take(tensor)
        parts = self._fitting(key, box)
        if parts is not None:
            self._ask(key, tensor, parts)
        return parts is not None

    def _ask(self, key: str, tensor: object, parts: list[Part]) -> None:
        self._wanted.append((self._framework.target(key, tensor), parts))

    def _fitting(self, key: str, wanted: Box) -> list[Part] | None:
        """The saved parts that cover the box `wanted`.

        None if the saved tensor does not fit. The reason is then in `problems` or `left_out`.
        """
        parts = self.saved.parts(key)
        if not parts:
            return self.leave_out(f"{key} was not saved")
        saved, kind = parts[0].box, self.saved.kind(key, parts)
        if (saved.dtype, kind) != (wanted.dtype, wanted.kind):
            was = kind or saved.dtype
            return self.leave_out(
                f"{key} was saved as {was}, not {wanted.kind or wanted.dtype}"
            )
        if key in self._differing:
            if key in self.parameters:
                return self._refuse_own(key)
            self.saved.open_others()
            parts = sorted(self.saved.parts(key), key=lambda part: part.source.rank)
            self.of_rank_0.append(key)
        chosen = cover(parts, wanted)
        if chosen is None and self.saved.open_others():
            parts = self.saved.parts(key)
            chosen = cover(parts, wanted)
        whole = parts[0].box.whole
        if whole != wanted.whole:
            return self.leave_out(f"{key} was saved as {list(whole)}, not {list(wanted.whole)}")
        if chosen is None:
            self.problems.append(f"not all parts of {key} are in this checkpoint")
        return chosen

    def tensor(
        self,
        key: str,
        there: object,
        *,
        like: object = None,
        tag: str = "$tensor",
        is_in_place: bool = True,
    ) -> object:
        """The saved tensor `key`: `there` itself if shape and type match, else a new one.

        A new tensor is on the device of `there`, or sharded like the parameter `like`.
        """
        if self._is_planned(key, there):
            return there
        box = self.saved.whole(key)
        if box is None:
            self.problems.append(f"{key} was not saved")
            return None
        why = self._why_new(key, there, box) if is_in_place else ""
        is_exact = self.strict and self._framework.is_exact
        if is_in_place and (not why or (is_exact and self._differs(key, there, box))):
            self.want(key, there)
            return there
        if why and self._framework.tag(there) is not None:
            self.replaced.append(f"{key} is a new tensor: {why}")
        # A part of a sharded tensor needs no other part; a whole one may be larger than any memory.
        if like is None and not self.saved.has_all_of(key, box):
            rank = self.saved.own_rank
            self.problems.append(
                f"not all parts of {key} are in this checkpoint: the notes of rank {rank} give it "
                f"the shape {list(box.whole)}"
            )
            return None
        made = self._made(box, there, like, tag)
        self.want(key, made)
        return made

    def _is_planned(self, key: str, tensor: object) -> bool:
        """Whether the plan saves this very tensor as `key`. A rehearsal overrides this.

        Such a tensor cannot differ, so it is not compared.
        """
        return False

    def _made(self, box: Box, there: object, like: object, tag: str) -> object:
        return self._framework.tensor_for(box, there, like=like, tag=tag)

    def decoded(
        self, key: str, saved: notes.Json, there: object, *, is_in_place: bool = True
    ) -> object:
        """The saved value of an entry, with its tensors. `there` is the current value."""

        def own(kind: str, written: notes.Json, stands: object) -> object:
            if kind in ("$tensor", "$array"):
                return self.tensor(str(written), stands, tag=kind, is_in_place=is_in_place)
            noted = self._framework.note(stands)
            alike = noted[1] if noted is not None and _is_alike(noted, kind, written) else None
            content = notes.decode(written, own=own, there=alike, where=key)
            return self._framework.revive(kind, content, stands, self)

        told = self.replaced.append if is_in_place else None
        return notes.decode(saved, own=own, there=there, where=key, told=told)

    def compare(self, key: str, live: Callable[[], object], back: object) -> None:
        """A rehearsal overrides this: it notes where the decoded `back` differs from `live()`."""

    def _why_new(self, key: str, there: object, box: Box) -> str:
        """Why `there` cannot be filled in place; "" if it can."""
        if not self._framework.is_fillable(there):
            return "its elements cannot be written one by one"
        if self._differs(key, there, box):
            own = self._framework.box(key, there)
            return f"it was saved as {form_of(box)}, not {form_of(own)}"
        if self._is_taken(there):
            return "it shared memory with a tensor of another name"
        return ""

    def _differs(self, key: str, there: object, box: Box) -> bool:
        """Whether `there` has another type or shape than `box`."""
        if not self._framework.is_fillable(there):
            return False
        own = self._framework.box(key, there)
        return (own.dtype, own.kind, own.whole) != (box.dtype, box.kind, box.whole)

    def _is_taken(self, tensor: object) -> bool:
        begin, end = self._framework.extent(tensor)
        at = bisect_left(self._taken, (begin, begin))  # the first range from `begin` on
        is_after = at < len(self._taken) and self._taken[at][0] < end
        return begin < end and (is_after or (at > 0 and self._taken[at - 1][1] > begin))

    def _take(self, tensor: object) -> None:
        """Note that this memory is filled, as ranges that do not overlap."""
        begin, end = self._framework.extent(tensor)
        if begin == end:
            return
        at = bisect_left(self._taken, (begin, begin))
        if at > 0 and self._taken[at - 1][1] > begin:
            at -= 1
        stop = at
        while stop < len(self._taken) and self._taken[stop][0] < end:
            begin, end = min(begin, self._taken[stop][0]), max(end, self._taken[stop][1])
            stop += 1
        self._taken[at:stop] = [(begin, end)]

    def check(self, where: str) -> None:
        """Raise if a required part does not fit. Nothing has been changed then."""
        if self.strict and self.own_parameters:
            raise CheckpointError(
                what=f"the checkpoint of step {self.own.get('step')}, saved by {self._saved_by}"
                f" ranks, cannot be restored by {self._size}",
                where=where,
                why=f"{listed(self.own_parameters)} differ between those ranks and are not "
                    "shards of one tensor",
                fix=f"restore with {self._saved_by} ranks, or save each rank's part under "
                    "another name; strict=False leaves them out",
            )
        if not self.strict and not self.problems and self._asked and not self._wanted:
            self.problems.append("none of its tensors is in the state")
        if not self.problems:
            return
        raise CheckpointError(
            what=f"the checkpoint of step {self.own.get('step')} does not fit the state",
            where=where,
            why=shortened(self.problems),
            fix="; ".join(self.ways_out)
            or "make the state as it was saved, or use strict=False to leave out what does not fit",
            is_final=True,
        )

    def copy(self) -> None:
        asked: dict[int, tuple[Source, list[tuple[int, Memory]], list[Region]]] = {}
        for leaf, parts in self._wanted:
            for part in parts:
                key = id(part.source)
                _source, wholes, regions = asked.setdefault(key, (part.source, [], []))
                if (part.box.shape, part.box.offset) == (leaf.box.shape, leaf.box.offset):
                    wholes.append((part.index, memory(leaf)))
                else:
                    regions.append(region(leaf, part))
        for source, wholes, regions in asked.values():
            source.restore(wholes, regions)
        for leaf, _parts in self._wanted:
            if leaf.live is not None:
                self._framework.write_back(leaf)

    def finish(self) -> None:
        """Load the state of objects that load their state themselves; their tensors are ready."""
        for action in self.after:
            action()

    def told(self) -> str:
        """What was left out or taken from another rank, as the end of a sentence."""
        told = ""
        if self.of_rank_0:
            told = f"; rank 0's of what differs between ranks: {listed(self.of_rank_0)}"
        return told + (f"; left out: {shortened(self.left_out)}" if self.left_out else "")

    def fill_value(self, key: str, value: object, state: State) -> None:
        """Restore another entry: containers, values, objects that load their state."""
        saved = self.entry(key)
        if saved is None:
            return
        live = self._live(key, value)
        is_loading = has_state(value)
        decoded = self.decoded(key, saved, live, is_in_place=not is_loading)
        self.compare(key, lambda: live, decoded)
        if is_loading:
            self._reserve(live)
            self.after.append(lambda: self._load(key, value, decoded, live))
        else:
            framework = self._framework
            is_tensor = framework.tag(value) is not None
            if framework.is_exact and self.strict and is_tensor and framework.tag(decoded) is None:
                was, now = described(decoded), described(value)
                self.problems.append(f"{key} was saved as {was}, not as {now}")
            self._tell_new(key, value, decoded)
            self.after.append(lambda: state.__setitem__(key, decoded))

    def _tell_new(self, key: str, value: object, decoded: object) -> None:
        """List an entry that comes back as another object. Equal plain values are not listed."""
        if value is None or decoded is value or self._framework.tag(decoded) is not None:
            return  # tensors are listed elsewhere
        is_plain = isinstance(decoded, (bool, int, float, complex, str, bytes, type(None)))
        was, now = type(value), type(decoded)
        if is_plain and was is now and value == decoded:
            return
        more = "" if was is now else f", and was {described(value)}"
        self.replaced.append(f"{key} is a new {now.__qualname__}{more}")

    def _live(self, key: str, value: object) -> object:
        return self._framework.content(value)

    def _load(self, key: str, value: object, decoded: object, live: object) -> None:
        fitting = self._framework.adapted(value, decoded, live, self)
        load(key, self._framework.inner(value), fitting)

    def _reserve(self, live: object) -> None:
        """Memory of an object that loads its state itself must not be filled for another entry."""
        for tensor in tensors_in(self._framework, live):
            self._take(tensor)

    def leave_rest(self, state: State) -> None:
        """Note saved tensors and entries that the state does not have.

        In a world of several ranks only tensors that all images have are noted, because another
        rank may have asked for the others.
        """
        names = set(self._images.own.boxes)
        for source in self._images.opened:
            names = names | set(source.boxes) if self._is_alone else names & set(source.boxes)
        entries = cast("dict[str, object]", self.own.get("entries", {}))
        unknown = {key: 0 for key in entries if key not in state}
        for name in sorted(names - self._asked):
            known = (key for key in (*state, *entries) if name == key or name.startswith(f"{key}."))
            entry = next(known, name.split(".", 1)[0])
            if entry in state and holds_part(state[entry]):
                continue  # another stage of the pipeline has it
            if entry in state:
                self.leave_out(f"{name} was saved, and the state has no such tensor")
            else:
                unknown[entry] = unknown.get(entry, 0) + 1
        for entry, count in sorted(unknown.items()):
            tensors = f" with {count} tensors" if count else ""
            self.leave_out(f"{entry} was saved{tensors}, and the state has no such entry")

    def _find_differing(self) -> set[str]:
        if self._images.differing is None:  # in memory, where no one has compared them yet
            self.saved.open_others()
            self._images.differing = own_tensors.differing(self._images.opened)
        return self._images.differing

    def _refuse_own(self, key: str) -> None:
        """Note that another world size cannot take this rank's tensor."""
        self.own_parameters.append(key)
        if not self.strict:
            self.left_out.append(
                f"{key} differs between the {self._saved_by} ranks that saved it, and is no shard"
            )


def _is_alike(noted: tuple[str, object], kind: str, written: notes.Json) -> bool:
    """Whether a saved framework object has the same parts as one with the note `noted`."""
    make = "bit_generator"  # NumPy's generators have arrays of other shapes under one name
    there, saved = (one if isinstance(one, dict) else {} for one in (noted[1], written))
    return noted[0] == kind and there.get(make) == saved.get(make)
