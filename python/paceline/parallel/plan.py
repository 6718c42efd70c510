"""A parallel plan as the executor reads it; docs/formats/parallel_plan.md specifies the text."""

import json
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers of the model, and the ranks that run them. The `tensor` ranks of a replica are
    adjacent.
    """

    begin: int
    end: int  # the first layer after the stage, or after its first chunk
    ranks: list[int]
    # Further chunks of layers as (begin, end), if stages are interleaved.
    later: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """All chunks of layers, each as (begin, end)."""
        return [(self.begin, self.end), *self.later]


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a plan that a rank carries out."""

    stage: int
    replica: int
    part: int = 0  # number of the rank's part of each layer, if several ranks share layers


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """A plan: `ParallelPlan.parse(text).place(rank)` is a rank's part of it."""

    text: str
    model: str
    global_batch: int
    data: int
    tensor: int
    shard: bool
    recompute: str  # "none", "full" or "selective"
    micro_batches: int
    schedule: str
    stages: list[Stage]
    shares: list[int]
    unused: list[int]
    memory: list[int]  # predicted bytes of a rank, for each stage
    because: str
    sequence: bool  # whether the ranks that share layers also divide sequences
    step_seconds: float  # of a step, as predicted; 0: the plan does not say
    own_seconds: float  # of it, what the slowest replica computes; 0: the plan does not say

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text of a plan that the planner has checked."""
        fields: dict[str, Any] = json.loads(text)
        stages = [
            Stage(*one["layers"], ranks=one["ranks"],
                  later=[(a, b) for a, b in one.get("later", [])])
            for one in fields["stages"]
        ]  # fmt: skip
        recompute = fields["recompute"]
        if isinstance(recompute, bool):  # plans of older versions
            recompute = "full" if recompute else "none"
        names = ("model", "global_batch", "data", "tensor", "shard", "micro_batches",
                 "schedule", "shares", "unused")  # fmt: skip
        return cls(
            text=text,
            stages=stages,
            recompute=recompute,
            sequence=bool(fields.get("sequence", False)),
            memory=[int(one) for one in fields["predicted"]["memory"]],
            because=str(fields.get("because", "")),
            step_seconds=float(fields["predicted"].get("step", 0.0)),
            own_seconds=sum(float(fields["predicted"].get(part, 0.0))
                            for part in ("compute", "bubble")),
            **{name: fields[name] for name in names},
        )

    def place(self, rank: int) -> Place | None:
        """The part of that rank. None: the plan does not use the rank."""
        for number, stage in enumerate(self.stages):
            if rank in stage.ranks:
                replica = stage.ranks.index(rank) // self.tensor
                return Place(number, replica, self.parts(number)[replica].index(rank))
        return None

    @property
    def is_pipeline(self) -> bool:
        return len(self.stages) > 1

    @property
    def virtual_stages(self) -> int:
        """Chunks of layers of each stage; above 1 the stages are interleaved."""
        return len(self.stages[0].chunks)

    @property
    def orders_many(self) -> bool:
        """Whether torch's schedule is one of several stages a rank, which also takes one."""
        return self.virtual_stages > 1 or self.schedule == "zero-bubble"

    def virtual(self) -> list[tuple[int, int]]:
        """The layers of each virtual stage, in the order in which a micro-batch passes them."""
        return [chunk for row in zip(*(one.chunks for one in self.stages), strict=True)
                for chunk in row]  # fmt: skip

    @property
    def size(self) -> int:
        """The number of ranks that the plan uses."""
        return self.data * self.tensor * len(self.stages)

    def parts(self, stage: int) -> list[list[int]]:
        """For each replica of a stage, the ranks that share its layers, in ascending order.

        torch's groups have that order, whatever the plan's order is.
        """
        ranks = self.stages[stage].ranks
        return [sorted(ranks[n : n + self.tensor]) for n in range(0, len(ranks), self.tensor)]

    def replicas(self, stage: int) -> list[list[int]]:
        """For each part of a stage's layers the ranks that hold it, one of each replica."""
        return [list(ranks) for ranks in zip(*self.parts(stage), strict=True)]

    def pipelines(self) -> list[list[int]]:
        """For each part of each replica its ranks, in the order of the stages."""
        stages = [[rank for row in self.parts(n) for rank in row] for n in range(len(self.stages))]
        return [list(ranks) for ranks in zip(*stages, strict=True)]

    def told(self) -> str:
        """The plan in a few words: `"data 2 × pipeline 2 (1f1b, 4 micro-batches)"`."""
        words = [f"data {self.data}"]
        if self.tensor > 1:
            words.append(f"tensor {self.tensor}")
        if self.is_pipeline:
            words.append(f"pipeline {len(self.stages)}")
        more = [self.schedule] if self.is_pipeline else []
        if self.virtual_stages > 1:
            more.append(f"{self.virtual_stages} virtual stages")
        if self.micro_batches > 1:
            more.append(f"{self.micro_batches} micro-batches")
        more += ["sequence"] if self.sequence else []
        more += ["shard"] if self.shard else []
        if self.recompute != "none":
            more.append("recompute" if self.recompute == "full" else "selective recompute")
        return " × ".join(words) + (f" ({', '.join(more)})" if more else "")
