"""A parallel plan as the executor reads it; docs/formats/parallel_plan.md specifies the text."""

import json
from dataclasses import dataclass
from typing import Any, Self

from paceline.parallel.errors import PlanError


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers of the model, and the rank of each replica that runs them."""

    begin: int
    end: int  # the first layer behind it
    ranks: list[int]


@dataclass(frozen=True, slots=True)
class Place:
    """Which part of a plan a rank carries out."""

    stage: int
    replica: int


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """Who computes what: `ParallelPlan.parse(text).place(rank)` is a rank's part of it."""

    text: str
    model: str
    global_batch: int
    data: int
    shard: bool
    recompute: bool
    micro_batches: int
    schedule: str
    stages: list[Stage]
    shares: list[int]
    because: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The plan of a text that the planner has checked. Raises PlanError where it cannot run."""
        fields: dict[str, Any] = json.loads(text)
        if fields["tensor"] != 1:
            raise PlanError(
                what=f"a plan with tensor parallelism of {fields['tensor']} cannot run",
                where="parallelize",
                why="this version carries out data and pipeline parallelism only",
                fix='a plan with "tensor": 1',
            )
        stages = [Stage(*one["layers"], ranks=one["ranks"]) for one in fields["stages"]]
        names = ("model", "global_batch", "data", "shard", "recompute", "micro_batches", "schedule",
                 "shares")  # fmt: skip
        return cls(
            text=text,
            stages=stages,
            because=str(fields.get("because", "")),
            **{name: fields[name] for name in names},
        )

    def place(self, rank: int) -> Place | None:
        """The part of that rank. None: it has nothing to do."""
        for number, stage in enumerate(self.stages):
            if rank in stage.ranks:
                return Place(number, stage.ranks.index(rank))
        return None

    @property
    def is_pipeline(self) -> bool:
        return len(self.stages) > 1

    def pipelines(self) -> list[list[int]]:
        """For each replica its ranks, in the order of the stages."""
        return [[stage.ranks[r] for stage in self.stages] for r in range(self.data)]

    def told(self) -> str:
        """The plan in a few words: `"data 2 × pipeline 2 (1f1b, 4 micro-batches)"`."""
        words = [f"data {self.data}"]
        if self.is_pipeline:
            words.append(f"pipeline {len(self.stages)}")
        more = [self.schedule] if self.is_pipeline else []
        if self.micro_batches > 1:
            more.append(f"{self.micro_batches} micro-batches")
        more += [name for name in ("shard", "recompute") if getattr(self, name)]
        return " × ".join(words) + (f" ({', '.join(more)})" if more else "")
