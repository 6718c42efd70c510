"""Makes a plan of a state: which tensors it holds, and which values each save reads again."""

import contextlib
from typing import cast

from paceline._base.wording import described
from paceline._native import Layout, LivePlan
from paceline._state import notes
from paceline._state.framework import SavingFramework
from paceline._state.save_plan import Leaf, SavePlan, State
from paceline.errors import CheckpointError

_CHUNK_BYTES = 4 << 20
_FIXES = {
    "$flattened": "that tensor is made of other tensors and of such a value. Put an object with "
    "state_dict and load_state_dict of your own into the state, which saves the inner tensors and "
    "makes the tensor again",
}
_RESERVED = "__metadata__"  # safetensors'


class Planned:
    """A planned state. `planned.ask(state)` is its small part; None if the plan is outdated."""

    def __init__(self, framework: SavingFramework, state: State) -> None:
        self._framework = framework
        check_keys(state)
        plan = self.plan = SavePlan()
        # Entries that are walked in every save, because their objects may change.
        self._walked = {
            key for key, value in state.items() if not framework.plan_entry(plan, key, value, state)
        }
        self._entries = self._identities(state)
        self.is_rehearsed = False
        # The entries of the last walk, for the rehearsal.
        self.asked: dict[str, object] = {}
        self.first, found = self._walk(state)  # the result for the first `ask`
        self._loose = [framework.leaf(where, tensor) for where, tensor in found]
        plan.leaves.extend(self._loose)
        check_names(plan.leaves)
        frozen = {leaf.key for leaf in plan.leaves if leaf.is_frozen}
        self.layout = Layout(
            [(leaf.key, leaf.box.dtype, leaf.box.shape, leaf.box.offset) for leaf in plan.leaves],
            frozen,
            [leaf.key for leaf in plan.leaves if not leaf.is_parameter],
        )
        # One byte for each leaf: the values of client::SourcePlace.
        self.places = bytes(
            (2 if leaf.is_stepped else 1) if leaf.is_on_device else 0 for leaf in plan.leaves
        )
        self.device = framework.device() if any(self.places) else None
        self.padding_max = _CHUNK_BYTES if frozen else 0  # bytes between the two files of an image
        self.live = LivePlan(
            [
                (leaf.container, leaf.name, leaf.found, leaf.memory, framework.formed(leaf))
                for leaf in plan.leaves
            ],
            plan.links,
            plan.sizes,
        )
        self.shapes = {leaf.key: leaf.box.whole for leaf in plan.leaves if leaf.box.is_sharded}
        self.kinds = {leaf.key: leaf.box.kind for leaf in plan.leaves if leaf.box.kind}

    def ask(self, state: State) -> dict[str, notes.Json] | None:
        """The entries that are not tensors, as JSON. None: a new plan is needed."""
        plan = self.plan
        if not (
            plan.is_lasting
            and self._identities(state) == self._entries
            and all(getattr(o, name) is value for o, name, value in plan.attributes)
            and self.live.is_current()
        ):
            return None
        entries, found = self._walk(state)
        if len(found) != len(self._loose) or not all(
            leaf.key == where and self._framework.is_same(leaf, tensor)
            for leaf, (where, tensor) in zip(self._loose, found, strict=True)
        ):
            return None
        return entries

    def _walk(self, state: State) -> tuple[dict[str, notes.Json], list[tuple[str, object]]]:
        found: list[tuple[str, object]] = []

        def own(where: str, value: object) -> notes.Json | None:
            tag = self._framework.tag(value)
            if tag is not None:
                found.append((where, value))
                return {tag: where}
            noted = self._framework.note(value)
            if noted is None:
                return None
            try:
                return {noted[0]: notes.encode(noted[1], where=where, own=own)}
            except notes.NotesError as error:
                error.fix = error.fix or _FIXES.get(noted[0], "")
                raise

        values = self.plan.values
        entries: dict[str, notes.Json] = {}
        for key in state:
            if key in self._walked or key in values:
                walked = key in self._walked
                value = self._framework.content(state[key]) if walked else values[key]()
                entries[key] = notes.encode(value, where=key, own=own)
                if key in self._walked and not self.is_rehearsed:
                    self.asked[key] = value
        return entries, found

    def leave(self) -> None:
        """Drop the values of the last walk, which may be large."""
        self.asked = {}

    def _identities(self, state: State) -> tuple[tuple[str, int], ...]:
        return tuple((key, 0 if key in self._walked else id(state[key])) for key in state)


def tensors_in(framework: SavingFramework, value: object) -> list[object]:
    """The tensors in a value, also in nested containers."""
    found: list[object] = []

    def own(_where: str, one: object) -> notes.Json | None:
        if framework.tag(one) is None:
            noted = framework.note(one)
            return None if noted is None else notes.encode(noted[1], where="", own=own)
        found.append(one)
        return {}

    # A value that cannot be saved may still be replaced by a saved one.
    with contextlib.suppress(notes.NotesError):
        notes.encode(value, where="", own=own)
    return found


def check_keys(state: State) -> None:
    """Raise CheckpointError if the state is not a dict by name."""
    for key in cast("list[object]", list(state)):
        if not isinstance(key, str):
            raise CheckpointError(
                what="the state has an entry whose name is no text",
                where=f"the entry {key!r}",
                why=f"tensors are named after it, and it is {described(key)}",
                fix=f"call it {str(key)!r}, or put the dict under a name: "
                '{"all": state}',
                is_final=True,
            )


def check_names(leaves: list[Leaf]) -> None:
    """Raise CheckpointError if a file cannot hold tensors with these names."""
    seen: set[str] = set()
    for leaf in leaves:
        if leaf.key in seen:
            why = "two tensors have this name: it is the way to each of them, joined by dots"
        elif leaf.key == _RESERVED:
            why = "the file keeps this name for itself"
        elif not leaf.key.isascii() and not _is_encodable(leaf.key):
            why = "this name holds half of a surrogate pair, which is no text in UTF-8"
        else:
            seen.add(leaf.key)
            continue
        raise CheckpointError(
            what="a tensor's name cannot be used",
            where=repr(leaf.key),
            why=why,
            fix="give one of the keys on the way to it another name",
            is_final=True,
        )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
