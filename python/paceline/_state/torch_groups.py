"""Matches an optimizer's saved parameter groups to the script's, by the parameters' names.

The order of groups, and of parameters in a group, is not used, because a script may build them from
another dict. A parameter that is in no module of the state has a number instead: its position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torch.optim import Optimizer

from paceline._restore.restoring import Restoring, listed
from paceline._state.wrapper_marks import without_marks

Names = list[list[str]]  # of parameters, by group
Order = list[int | None]  # the saved group's index for each group of the script, if any

# Lists in the state of torch's schedulers with one item for each group, and the keys that the
# schedulers write into the groups.
_BY_GROUP = ("base_lrs", "_last_lr", "min_lrs", "max_lrs", "base_momentums", "max_momentums",
             "lr_lambdas")  # fmt: skip
_OF_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum"}


@dataclass(frozen=True)
class Match:
    """Which saved parameters and groups belong to those of the script's optimizer."""

    names: dict[str, str]  # from the script's parameter names to the saved names
    order: Order


class SavedNames:
    """Saved names of parameters as the script has them now.

    Both maps are by parameter: `names`, and `older` with the parts that wrappers add. Older
    versions, and imports, have saved such parts.
    """

    def __init__(self, names: dict[object, str], older: dict[object, str]) -> None:
        self._names = set(names.values())
        self._older = {older[parameter]: name for parameter, name in names.items()}
        self._seen: set[str] = set()
        self._saved: dict[str, str] = {}

    def now(self, name: str) -> str:
        """`name` itself if it is the script's, or no parameter's."""
        if name in self._names:
            self._seen.add(name)
            return name
        found = self._older.get(name, without_marks(name))
        is_known = found in self._names and self._saved.setdefault(found, name) == name
        return found if is_known else name

    def saved(self, name: str) -> str:
        """The name that `now` was given for `name`."""
        return name if name in self._seen else self._saved.get(name, name)


def match(work: Restoring, key: str, saved: Names, live: Names) -> Match:
    """Match the groups of the optimizer `key`. Parts that do not fit are left out, or problems."""
    if saved == live:
        return Match({n: n for group in live for n in group}, list(range(len(live))))
    if _are_numbers(saved) and [len(g) for g in saved] == [len(g) for g in live]:
        # A checkpoint imported from torch has numbers, in the order of the parameters.
        pairs = zip((n for g in live for n in g), (n for g in saved for n in g), strict=True)
        return Match(dict(pairs), list(range(len(live))))
    names = _names(work, key, saved, live)
    return Match(names, _order(work, key, saved, live, names))


def _are_numbers(groups: Names) -> bool:
    return all(name.isdigit() for group in groups for name in group)


def _names(work: Restoring, key: str, saved: Names, live: Names) -> dict[str, str]:
    # If named parameters have moved, a number may belong to another parameter now.
    is_numbered = _are_numbers(saved) and _are_numbers(live)
    same = [a for a, b in zip(saved, live, strict=False) if a == b]
    steady = {name for group in same for name in group}
    known = {name for group in saved for name in group}
    now = [name for group in live for name in group]
    found: dict[str, str] = {}
    for name in now:
        if name not in known:
            work.leave_out(f"{key}'s state of {name} was not saved")
        elif name.isdigit() and not is_numbered and name not in steady:
            work.leave_out(
                f"{key}'s state of {name} may be another parameter's: groups have changed, and it "
                "is in no module of the state"
            )
        else:
            found[name] = name
    for name in sorted(known - set(now)):
        work.leave_out(f"{key}'s state of {name} was saved, and it has no such parameter")
    return found


def _order(
    work: Restoring, key: str, saved: Names, live: Names, names: dict[str, str]
) -> Order:
    """Two groups match if their parameters, without added and removed ones, are the same."""
    home = {name: j for j, group in enumerate(saved) for name in group}
    came_from = [{home[names[n]] for n in group if n in names} for group in live]
    empty = iter([j for j, group in enumerate(saved) if not group])
    order: Order = []
    for group, origins in zip(live, came_from, strict=True):
        one = next(iter(origins), None) if group else next(empty, None)
        is_whole = len(origins) <= 1 and sum(one in others for others in came_from) <= 1
        order.append(one if is_whole else None)
        if order[-1] is None:
            why = "was saved in other groups" if origins else "was not saved"
            work.leave_out(
                f"{key}.param_groups.{len(order) - 1} ({listed(group, 3)}) {why}: its options stay "
                "the script's"
            )
    gone = set(range(len(saved))) - {j for origins in came_from for j in origins} - set(order)
    for j in sorted(gone):
        work.leave_out(
            f"{key}.param_groups.{j} ({listed(saved[j], 3)}) was saved, and the optimizer has no "
            "such group"
        )
    if gone and work.strict:
        groups = " and ".join(f"of {listed(saved[j], 3)}" for j in sorted(gone))
        work.ways_out.append(
            f"add the parameter group {groups} to {key} (add_param_group) before the restore, if "
            "the training adds it later; or use strict=False to leave out what does not fit"
        )
    return order


def foreign_options(optimizer: Optimizer, groups: list[object]) -> list[str]:
    """Options in the saved `groups` that show another class of optimizer.

    A newer version of one class only adds or only removes options. Another class does both.
    """
    known = {name for group in optimizer.param_groups for name in group} | _OF_SCHEDULERS
    for group in groups:
        if not isinstance(group, dict) or any(name.startswith("$") for name in group):
            continue
        names = set(cast("dict[str, object]", group))
        if set(optimizer.defaults) - names and names - known:
            return sorted(names - known)
    return []


def leave_out_state(work: Restoring, key: str, entry: Mapping[str, object], why: str) -> None:
    """Note that no state of the optimizer `key` is restored, and which state was saved."""
    begin = f"{key}.state."
    scalars = cast("dict[str, dict[str, object]]", entry.get("scalars", {}))
    state = {name.rpartition(".")[2] for name in work.saved.names() if name.startswith(begin)}
    state |= {str(what) for inner in scalars.values() for what in inner}
    work.pass_over(f"{key}.")
    work.leave_out(
        f"{key} was saved by another kind of optimizer ({why}): its state "
        f"({', '.join(sorted(state)) or 'none'}) and its options are not taken"
    )


def regrouped(decoded: object, live: object, order: Order, count: int) -> object:
    """A scheduler's saved state for groups in another order; `count` groups were saved.

    Items of groups that were not saved stay as they are in `live`.
    """
    if not isinstance(decoded, dict) or not isinstance(live, dict):
        return decoded
    state = dict(cast("dict[object, object]", decoded))
    there = cast("dict[object, object]", live)
    for name in _BY_GROUP:
        was, now = state.get(name), there.get(name)
        if isinstance(was, list) and len(cast("list[object]", was)) == count:
            stays = cast("list[object]", now if isinstance(now, list) else [None] * len(order))
            if len(stays) == len(order):
                given = cast("list[object]", was)
                state[name] = [
                    stay if j is None else given[j] for stay, j in zip(stays, order, strict=True)
                ]
    inner, inner_now = state.get("_schedulers"), there.get("_schedulers")
    if isinstance(inner, (list, tuple)) and isinstance(inner_now, (list, tuple)):
        pairs = zip(cast("list[object]", inner), cast("list[object]", inner_now), strict=False)
        state["_schedulers"] = [regrouped(one, now, order, count) for one, now in pairs]
    return state
