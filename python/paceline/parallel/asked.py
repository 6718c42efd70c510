"""What the annotations of a model require of its plan: values of axes, and where stages end.

    asked_of(model, layers_of(model), 4).wishes  # {"tensor": [2]}
"""

from dataclasses import dataclass, field
from itertools import groupby

from torch import nn

from paceline.parallel.annotate import Scope, part_of, stage_of
from paceline.parallel.errors import PlanError
from paceline.parallel.layers import Layers, told


@dataclass(slots=True)
class Asked:
    """Limits of the search, each with a sentence that names the line of the script."""

    wishes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    because: dict[str, str] = field(default_factory=dict[str, str])
    cuts: dict[int, str] = field(default_factory=dict[int, str])  # why no stage ends after a layer

    def add(self, axis: str, value: int, because: str) -> None:
        self.wishes[axis], self.because[axis] = [value], because


def asked_of(model: nn.Module, layers: Layers, world_size: int | None) -> Asked:
    """The limits from the model's annotations. Raises PlanError, with the line, if they contradict.

    `world_size` is None if the devices are not known yet.
    """
    asked = Asked()
    stages = _stages(model, layers)
    splits = _splits(model)
    if stages:
        _add_stages(asked, stages, layers)
    if splits:
        first = splits[0]
        _one_degree(splits)
        asked.add("tensor", first.devices or 1,
                  f"{first.told} of {first.place} asks for it")  # fmt: skip
    _add_devices(asked, stages, splits, world_size)
    return asked


def _splits(model: nn.Module) -> list[Scope]:
    found = {
        scope.number: scope
        for scope in map(part_of, model.modules())
        if scope is not None and scope.kind == "split"
    }
    return [found[number] for number in sorted(found)]


def _one_degree(splits: list[Scope]) -> None:
    first = splits[0]
    for one in splits:
        if one.devices != first.devices:
            raise PlanError(
                what=f"{first.told} and {one.told} are in one model",
                where=one.place,
                why="all layers that ranks share have the same number of ranks",
                fix=f"the {first.devices} ranks of {first.place} here too",
            )


def _stages(model: nn.Module, layers: Layers) -> list[tuple[Scope, int]]:
    """The stages in the order of their layers, and for each the first layer after it.

    Layers that no annotation names go with the stage before them, and the first ones with the
    first stage.
    """
    found: list[Scope | None] = []
    for name, layer in zip(layers.names, layers.of(model), strict=True):
        own = {one.number: one for one in map(stage_of, layer.modules()) if one is not None}
        if len(own) > 1:
            one, other = (own[number] for number in sorted(own)[:2])
            raise PlanError(
                what=f"{told(name)} is in two stages",
                where=other.place,
                why=f"it is one layer of the plan, and {one.place} has a part of it",
                fix="whole layers in each stage",
            )
        found.append(next(iter(own.values()), None))
    if not any(found):
        return []
    last = next(one for one in found if one is not None)
    whole: list[Scope] = []
    for one in found:
        last = one or last
        whole.append(last)
    stages: list[tuple[Scope, int]] = []
    end = 0
    for scope, run in groupby(whole):
        end += len(list(run))
        stages.append((scope, end))
    _must_be_runs(stages, layers)
    return stages


def _must_be_runs(stages: list[tuple[Scope, int]], layers: Layers) -> None:
    seen: set[int] = set()
    for place, (scope, _) in enumerate(stages):
        if scope.number in seen:
            name = layers.told(stages[place - 1][1])
            raise PlanError(
                what="the layers of a stage do not follow each other",
                where=scope.place,
                why=f"another stage lies before {name}",
                fix="a stage for each run of layers",
            )
        seen.add(scope.number)
    if len(stages) == 1 and stages[0][0].kind == "stage":
        scope = stages[0][0]
        raise PlanError(
            what="one stage is no pipeline",
            where=scope.place,
            why="layers that no annotation names go with the stage before them",
            fix="a second parallel.stage(), or replicate() without a number",
        )


def _add_stages(asked: Asked, stages: list[tuple[Scope, int]], layers: Layers) -> None:
    first, last = stages[0][0], stages[-1][0]
    because = f"the stages of {first.place} to {last.place} ask for it"
    if first.place == last.place:
        because = f"the stages of {first.place} ask for it"
    if first is last:
        because = f"{first.told} of {first.place} asks for it"
    asked.add("pipeline", len(stages), because)
    begin = 0
    for scope, end in stages:
        for place in range(begin, end - 1):
            asked.cuts[place] = f"{scope.place} has these layers in one stage"
        begin = end


def _add_devices(
    asked: Asked,
    stages: list[tuple[Scope, int]],
    splits: list[Scope],
    world_size: int | None,
) -> None:
    """Count the devices: each stage has its own, and all stages together are repeated to fill
    the world.
    """
    counted = [scope for scope, _ in stages if scope.devices is not None]
    if counted:
        first = counted[0]
        for scope, _ in stages:
            if scope.devices != first.devices:
                raise PlanError(
                    what=f"{first.told} and {scope.told} are stages of one pipeline",
                    where=scope.place,
                    why="all stages have the same number of replicas",
                    fix=f"replicate({first.devices}) for each, or stage() without numbers",
                )
        if splits:
            raise PlanError(
                what=f"{first.told} and {splits[0].told} are in one model",
                where=splits[0].place,
                why="a number of devices for stages and ranks that share layers is not built",
                fix="replicate() without a number, or parallel.stage()",
            )
    needed = sum(scope.devices or 0 for scope in counted)
    needed = needed or max(1, len(stages)) * ((splits[0].devices or 1) if splits else 1)
    if world_size is None or needed == 1:
        return
    place = (counted or splits or [scope for scope, _ in stages])[0].place
    if needed > world_size or (counted and world_size % needed):
        raise PlanError(
            what=f"the annotations ask for {needed} devices",
            where=place,
            why=f"the world has {world_size}, " + ("which is less" if needed > world_size else
                f"and {needed} does not divide that"),
            fix=f"{needed * max(1, world_size // needed)} ranks, or smaller numbers",
        )  # fmt: skip
    if counted:
        each = counted[0].devices or 1
        asked.add("data", world_size // needed * each,
                  f"{counted[0].told} of {counted[0].place} asks for it on "
                  f"{world_size} devices")  # fmt: skip
