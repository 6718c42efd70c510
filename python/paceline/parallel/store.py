"""What ranks tell each other before the first collective: texts in the store of the world.

A world of one needs no store. Every rank that cannot go on writes why, so that the others raise
the same error instead of waiting for it.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch.distributed as dist

from paceline._rank import progress
from paceline.parallel.errors import PlanError

_calls = itertools.count()


class Store(Protocol):
    """The part of torch's Store that is needed."""

    def set(self, key: str, value: str) -> None: ...
    def get(self, key: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation of all ranks: each call of `parallelize` has its own."""

    rank: int
    world_size: int
    store: Store | None
    name: str = field(default_factory=lambda: f"{progress.generation()}/{next(_calls)}")

    @classmethod
    def of_world(cls) -> "Talk":
        """Over the store of the default process group."""
        if not dist.is_initialized():
            return cls(0, 1, None)
        c10d: Any = dist.distributed_c10d
        found = c10d._get_default_store()
        return cls(dist.get_rank(), dist.get_world_size(), found)

    def settle(
        self, topic: str, mine: Callable[[], Any], judge: Callable[[list[Any]], Any]
    ) -> Any:
        """What rank 0 makes of what each rank says, on every rank. Values are JSON's.

        An error of any rank, and one of `judge`, is raised on every rank.
        """
        said = _said(mine)
        if self.store is not None:
            self.store.set(self._key(topic, self.rank), json.dumps(said))

        def judged() -> Any:
            rows = [said]
            if self.store is not None:
                keys = [self._key(topic, rank) for rank in range(self.world_size)]
                rows = [json.loads(self.store.get(key)) for key in keys]
            return judge([_value(row) for row in rows])

        return self.decide(topic, judged)

    def decide(self, topic: str, choose: Callable[[], Any]) -> Any:
        """What rank 0 says, on every rank. `choose` runs on rank 0 alone."""
        if self.store is None:
            return choose()
        key = self._key(topic, "decided")
        if self.rank == 0:
            said = _said(choose)
            self.store.set(key, json.dumps(said))
            return _value(said)
        return _value(json.loads(self.store.get(key)))

    def _key(self, topic: str, who: object) -> str:
        return f"paceline/parallel/{self.name}/{topic}/{who}"


@dataclass(frozen=True, slots=True)
class _Failure:
    what: str
    where: str
    why: str
    fix: str
    is_final: bool


def _said(make: Callable[[], Any]) -> dict[str, Any]:
    """What a rank writes: a value, or an error in four parts, which every rank raises."""
    try:
        return {"value": make()}
    except PlanError as error:
        failure = _Failure(error.what, error.where, error.why, error.fix, error.is_final)
        return {"error": asdict(failure)}


def _value(said: dict[str, Any]) -> Any:
    if "error" in said:
        raise PlanError(**said["error"])
    return said["value"]
