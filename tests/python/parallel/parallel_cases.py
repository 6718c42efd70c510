"""The plans of test_parallel.py for worlds of four ranks, and a store for ranks of threads."""

import json
import threading
from dataclasses import dataclass, field, replace
from typing import Any

from paceline import _native

BATCH = 16
SCHEMA = "paceline.plan/1"


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    model: str  # each has 7 layers; "llama": embedding, four blocks, norm, head
    stages: list[tuple[int, int]]
    ranks: list[list[int]]
    shares: list[int]
    micro_batches: int = 1
    schedule: str = "none"
    shard: bool = False
    recompute: str = "none"
    clip: float | None = None
    precision: str = "fp32"
    tensor: int = 1
    sequence: bool = False
    optimizer: str = "sgd"
    world: int = 4
    later: list[list[tuple[int, int]]] = field(default_factory=list)  # of each stage

    def as_planned(self, plan: Any) -> "Case":
        """The case with the stages and shares of that plan."""
        stages = [(one.begin, one.end) for one in plan.stages]
        return replace(self, stages=stages, shares=plan.shares, micro_batches=plan.micro_batches)

    def plan(self, model: str) -> dict[str, Any]:
        stages: list[dict[str, Any]] = [
            {"layers": list(layers), "ranks": ranks}
            for layers, ranks in zip(self.stages, self.ranks, strict=True)
        ]
        for stage, later in zip(stages, self.later, strict=False):
            stage["later"] = [list(chunk) for chunk in later]
        return {
            "schema": SCHEMA, "model": model, "global_batch": BATCH, "data": len(self.shares),
            "tensor": self.tensor, "shard": self.shard, "recompute": self.recompute,
            **({"sequence": True} if self.sequence else {}),
            "micro_batches": self.micro_batches, "schedule": self.schedule,
            "stages": stages,
            "shares": self.shares,
            "unused": sorted(set(range(self.world)) - {r for ranks in self.ranks for r in ranks}),
            "predicted": {"step": 1.0, "compute": 1.0, "communication": 0.0, "bubble": 0.0,
                          "memory": [1 << 20] * len(self.stages)},
            "bound": 1.0, "because": "the test gives it", "rejected": [],
        }  # fmt: skip


# Plans that also run with a model of transformers, with its clip and precision.
_WITH_LLAMA: dict[str, tuple[float | None, str]] = {
    "data-recompute": (0.05, "fp32"),
    "shard-passes": (0.05, "bf16"),
    "pipe-gpipe": (None, "fp32"),
    "data-pipe-turned": (0.05, "bf16"),
}


def _cases() -> list[Case]:
    whole: dict[str, Any] = {"stages": [(0, 7)], "ranks": [[0, 1, 2, 3]]}
    uneven: dict[str, Any] = {**whole, "shares": [7, 5, 3, 1]}
    two: dict[str, Any] = {"stages": [(0, 2), (2, 7)], "shares": [12, 4], "micro_batches": 4}
    plans: dict[str, dict[str, Any]] = {
        "data": uneven,
        "data-passes": {**uneven, "shares": [7, 4, 3, 2], "micro_batches": 2},
        "data-recompute": {**uneven, "recompute": "full"},
        "data-idle": {"stages": [(0, 7)], "ranks": [[3, 1]], "shares": [11, 5]},
        "shard": {**uneven, "shard": True},
        "shard-passes": {**uneven, "shares": [6, 4, 3, 3], "shard": True, "micro_batches": 3,
                         "recompute": "full"},
        "pipe-gpipe": {"stages": [(0, 1), (1, 3), (3, 4), (4, 7)], "ranks": [[0], [1], [2], [3]],
                       "shares": [16], "micro_batches": 4, "schedule": "gpipe"},
        "pipe-1f1b": {"stages": [(0, 3), (3, 5), (5, 7)], "ranks": [[0], [3], [1]],
                      "shares": [16], "micro_batches": 8, "schedule": "1f1b"},
        "pipe-few": {"stages": [(0, 3), (3, 5), (5, 7)], "ranks": [[0], [1], [2]],
                     "shares": [16], "micro_batches": 2, "schedule": "1f1b"},
        "data-pipe": {**two, "ranks": [[0, 1], [2, 3]], "schedule": "1f1b"},
        "data-pipe-turned": {**two, "ranks": [[3, 0], [2, 1]], "schedule": "gpipe",
                             "recompute": "full"},
        "shard-pipe": {**two, "ranks": [[0, 1], [2, 3]], "schedule": "1f1b", "shard": True},
    }  # fmt: skip
    found: list[Case] = []
    for name, fields in plans.items():
        kinds = [("mlp", None, "fp32"), ("mlp", 0.05, "bf16")]
        if name in _WITH_LLAMA:
            kinds.append(("llama", *_WITH_LLAMA[name]))
        for model, clip, precision in kinds:
            told = f"{name}-{model}-{precision}{'-clip' if clip else ''}"
            found.append(Case(name=told, model=model, clip=clip, precision=precision, **fields))
    return found


def _divided() -> list[Case]:
    """Plans whose layers several ranks share. The Llama has two heads, so two ranks at most."""
    whole: dict[str, Any] = {"stages": [(0, 7)], "model": "llama", "tensor": 2}
    four: dict[str, Any] = {**whole, "ranks": [[0, 1, 2, 3]]}
    return [
        Case(name="tensor", ranks=[[2, 1]], shares=[16], clip=0.05, **whole),
        Case(name="tensor-data", shares=[11, 5], micro_batches=2, clip=0.05,
             **{**four, "ranks": [[3, 0, 1, 2]]}),
        Case(name="tensor-shard", shares=[10, 6], shard=True, recompute="selective",
             micro_batches=2, clip=0.05, **four),
        Case(name="tensor-pipe", shares=[16], micro_batches=4, schedule="1f1b", clip=0.05,
             **{**whole, "stages": [(0, 3), (3, 7)], "ranks": [[0, 1], [3, 2]]}),
        Case(name="tensor-norms", shares=[9, 7], clip=0.05, **{**four, "model": "qwen3"}),
        Case(name="tensor-shard-fused", shares=[9, 7], shard=True, optimizer="fused", **four),
        Case(name="split", shares=[9, 7], clip=0.05, **{**four, "model": "words"}),
    ]  # fmt: skip


def _interleaved() -> list[Case]:
    """Stages with several chunks of layers. Those of `make test` come first."""
    options: dict[str, Any] = {"schedule": "interleaved-1f1b", "micro_batches": 4, "shares": [16]}
    # Of the Llama: embedding and block; two blocks; block and norm; head.
    two = {**options, "stages": [(0, 2), (2, 4)], "later": [[(4, 6)], [(6, 7)]], "model": "llama"}
    both = {**two, "ranks": [[3, 0], [1, 2]], "shares": [12, 4]}
    return [
        Case(name="interleaved", clip=0.05, ranks=[[0], [1]],
             **{**options, "model": "mlp", "stages": [(0, 2), (2, 3)],
                "later": [[(3, 5)], [(5, 7)]]}),
        Case(name="interleaved-data", recompute="selective", **both),
        Case(name="interleaved-three", clip=0.05, ranks=[[2], [0], [3]],
             **{**two, "stages": [(0, 1), (1, 2), (2, 3)], "later": [[(3, 4)], [(4, 5)], [(5, 7)]],
                "micro_batches": 8}),
        Case(name="interleaved-chunks", clip=0.05, ranks=[[2], [1]],
             **{**two, "stages": [(0, 1), (1, 2)],
                "later": [[(2, 3), (4, 5)], [(3, 4), (5, 7)]]}),
        Case(name="interleaved-shard", clip=0.05, shard=True, **both),
        Case(name="interleaved-tensor", tensor=2, clip=0.05, ranks=[[0, 1], [3, 2]], **two),
        Case(name="interleaved-bf16", precision="bf16", **both),
    ]  # fmt: skip


def _selective() -> list[Case]:
    """Plans that keep the results of products. Those of `make test` come first."""
    some: dict[str, Any] = {"model": "llama", "recompute": "selective", "clip": 0.05}
    four = {**some, "stages": [(0, 7)], "ranks": [[0, 1, 2, 3]]}
    pipe = {**some, "stages": [(0, 2), (2, 7)], "ranks": [[3, 0], [2, 1]], "shares": [12, 4],
            "micro_batches": 4}
    return [
        Case(name="selective", shares=[7, 5, 3, 1], **four),
        Case(name="selective-pipe", schedule="1f1b", **pipe),
        Case(name="selective-shard", shares=[6, 4, 3, 3], micro_batches=3, shard=True,
             precision="bf16", **four),
        Case(name="selective-shard-pipe", schedule="1f1b", shard=True,
             **{**pipe, "ranks": [[0, 1], [2, 3]]}),
        # Attention without a kernel: its products are computed again.
        Case(name="selective-eager", shares=[7, 5, 3, 1], **{**four, "model": "eager"}),
    ]  # fmt: skip


def _sequences() -> list[Case]:
    """Plans whose ranks divide sequences, too. Those of `make test` come first."""
    two: dict[str, Any] = {"model": "llama", "tensor": 2, "sequence": True, "clip": 0.05}
    four = {**two, "stages": [(0, 7)], "ranks": [[0, 1, 2, 3]], "shares": [11, 5]}
    pipe = {**two, "stages": [(0, 3), (3, 7)], "ranks": [[0, 1], [3, 2]], "shares": [16],
            "micro_batches": 4, "schedule": "1f1b"}
    return [
        Case(name="sequence-data", micro_batches=2, recompute="selective", **four),
        Case(name="sequence-pipe", **pipe),
        Case(name="sequence-shard", shard=True, recompute="full", micro_batches=2, **four),
        Case(name="sequence-norms", **{**four, "model": "qwen3"}),
        Case(name="sequence-norms-shard", shard=True, **{**four, "model": "qwen3"}),
        Case(name="sequence-gemma", **{**four, "model": "gemma"}),
        Case(name="sequence-mistral", **{**four, "model": "mistral"}),
        Case(name="sequence-qwen2", **{**four, "model": "qwen2"}),
        Case(name="sequence-lengths", micro_batches=2, **{**four, "model": "lengths"}),
        # The stages end behind the embedding and behind the last block.
        Case(name="sequence-ends", recompute="full",
             **{**pipe, "stages": [(0, 1), (1, 7)], "micro_batches": 2}),
        Case(name="sequence-tail", **{**pipe, "stages": [(0, 5), (5, 7)], "micro_batches": 2}),
        Case(name="sequence-interleaved", **{**pipe, "schedule": "interleaved-1f1b",
             "stages": [(0, 2), (2, 4)], "later": [[(4, 6)], [(6, 7)]]}),
    ]  # fmt: skip


def _in_parts() -> list[Case]:
    """Pipelines whose backward passes are two. Those of `make test` come first."""
    options: dict[str, Any] = {"schedule": "zero-bubble", "micro_batches": 4, "shares": [16],
                               "clip": 0.05}  # fmt: skip
    llama: dict[str, Any] = {**options, "model": "llama", "stages": [(0, 3), (3, 7)]}
    chunks = {"stages": [(0, 2), (2, 4)], "later": [[(4, 6)], [(6, 7)]]}
    return [
        Case(name="zero", model="mlp", stages=[(0, 3), (3, 5), (5, 7)], ranks=[[2], [0], [3]],
             **{**options, "micro_batches": 8}),
        Case(name="zero-data", ranks=[[3, 0], [1, 2]], **{**llama, "shares": [12, 4]}),
        Case(name="zero-chunks", ranks=[[1], [0]], **{**llama, **chunks}),
        Case(name="zero-tensor", tensor=2, ranks=[[0, 1], [3, 2]], **llama),
        Case(name="zero-sequence", tensor=2, sequence=True, ranks=[[0, 1], [3, 2]], **llama),
        Case(name="zero-bf16", ranks=[[0], [1]], precision="bf16", **llama),
    ]  # fmt: skip


def _tied() -> list[Case]:
    """Stages whose first and last one share a weight. Those of `make test` come first."""
    options: dict[str, Any] = {"clip": 0.05, "micro_batches": 4, "schedule": "1f1b"}
    two: dict[str, Any] = {**options, "stages": [(0, 3), (3, 7)], "shares": [12, 4]}
    turned: dict[str, Any] = {**two, "ranks": [[3, 0], [1, 2]]}
    three: dict[str, Any] = {**options, "stages": [(0, 2), (2, 5), (5, 7)], "shares": [16],
                             "ranks": [[2], [0], [1]]}  # fmt: skip
    chunks: dict[str, Any] = {**turned, "schedule": "interleaved-1f1b", "stages": [(0, 2), (2, 4)],
                              "later": [[(4, 6)], [(6, 7)]]}  # fmt: skip
    whole: dict[str, Any] = {"stages": [(0, 7)], "ranks": [[0, 1, 2, 3]], "clip": 0.05}
    return [
        Case(name="tied", model="gpt2", **turned),
        Case(name="tied-chunks-shard", model="gpt2", shard=True, **chunks),
        Case(name="tied-chunks", model="gpt2", **chunks),
        Case(name="tied-shard", model="gpt2", shard=True, **turned),
        Case(name="tied-three", model="gpt2", **three),
        Case(name="tied-fused", model="gpt2", optimizer="fused", **turned),
        Case(name="tied-shard-fused", model="gpt2", shard=True, optimizer="fused", **turned),
        Case(name="tied-selective", model="gpt2", recompute="selective", **turned),
        Case(name="tied-full", model="gpt2", recompute="full", **turned),
        Case(name="tied-zero", model="gpt2", **{**three, "schedule": "zero-bubble"}),
        Case(name="tied-gpipe", model="gpt2", **{**three, "schedule": "gpipe"}),
        Case(name="tied-llama", model="tied", **turned),
        Case(name="tied-llama-shard", model="tied", shard=True, **turned),
        Case(name="tied-llama-chunks", model="tied", **chunks),
        Case(name="tied-words", model="tied words", **turned),
        Case(name="tied-words-three", model="tied words", **three),
        Case(name="tied-words-chunks", model="tied words",
             **{**chunks, "stages": [(0, 1), (1, 2)], "later": [[(2, 4)], [(4, 7)]]}),
        Case(name="tied-words-chunks-shard", model="tied words", shard=True,
             **{**chunks, "stages": [(0, 1), (1, 2)], "later": [[(2, 4)], [(4, 7)]]}),
        Case(name="gpt2-data", model="gpt2", shares=[7, 5, 3, 1], **whole),
        Case(name="gpt2-shard", model="gpt2", shares=[6, 4, 3, 3], micro_batches=3, shard=True,
             **whole),
    ]  # fmt: skip


def _further() -> list[Case]:
    """More of these, for which `make test` has no time."""
    four: dict[str, Any] = {"stages": [(0, 7)], "tensor": 2, "shares": [9, 7],
                            "ranks": [[0, 1, 2, 3]]}  # fmt: skip
    return [
        Case(name="tensor-norms-shard", model="qwen3", shard=True, **four),
        Case(name="tensor-fused", model="llama", optimizer="fused", **four),
        Case(name="tensor-foreach", model="llama", optimizer="foreach", **four),
        Case(name="split-shard", model="words", shard=True, **four),
    ]


def _eight() -> list[Case]:
    """Tensor, pipeline and data parallelism together, for a world of eight ranks."""
    whole: dict[str, Any] = {
        "model": "llama", "tensor": 2, "stages": [(0, 3), (3, 7)], "shares": [10, 6],
        "ranks": [[0, 1, 2, 3], [4, 5, 6, 7]], "micro_batches": 2, "schedule": "1f1b",
        "clip": 0.05, "world": 8,
    }  # fmt: skip
    turned = {**whole, "ranks": [[5, 4, 0, 1], [7, 2, 3, 6]], "recompute": "full"}
    return [
        Case(name="eight", **turned),
        Case(name="eight-shard", shard=True, **whole),
        Case(name="eight-sequence", sequence=True, **{**turned, "recompute": "selective"}),
        Case(name="eight-sequence-shard", sequence=True, shard=True, **whole),
        Case(name="eight-bf16", **{**whole, "precision": "bf16"}),
    ]


PARTLY = [_selective(), _interleaved(), _sequences(), _in_parts(), _tied()]
CASES = _cases() + _divided() + [one for some in PARTLY for one in some[:2]]
FURTHER = _further() + [one for some in PARTLY for one in some[2:]]
EIGHT = _eight()
# The plan is chosen, for what the ranks measure.
CASES.append(Case(name="chosen", model="mlp", stages=[], ranks=[], shares=[]))


def digest_of(summary: str) -> str:
    """What a plan for that model has as its model."""
    from paceline.parallel import cluster


    one = cluster.without_numbers([["any", 1]])
    wishes = {"global_batch": BATCH, "tensor": [1], "pipeline": [1]}
    return json.loads(_native.choose_plan(summary, one, json.dumps(wishes)))["model"]


class Board:
    """A store of torch, for threads."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: key in self._values, 120), key
            return self._values[key]
