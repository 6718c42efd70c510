"""`PacelineTrainer`: a function that trains, on the nodes of a Ray cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paceline.integrations.ray.calls import ray
from paceline.integrations.ray.spec import JobSpec
from paceline.integrations.ray.store import Store
from paceline.integrations.ray.submit import RayError, connect, submit, tell, wait


@dataclass(frozen=True)
class Result:
    """How the training ended."""

    metrics: dict[str, Any] = field(default_factory=dict)
    """Of the last `ray.train.report` of rank 0."""
    checkpoint: str | None = None
    """The directory of the last checkpoint that was reported, in `storage`."""
    exit_code: int = 0
    error: str | None = None
    """The reason of an end with another exit code than 0."""


class PacelineTrainer:
    """Stands where Ray Train's `TorchTrainer` stood.

        result = PacelineTrainer(train_fn, nodes=4, spares=1, resources={"GPU": 8}).fit()

    Args:
        train_loop_per_worker: each rank calls it, with `train_loop_config` if it takes an argument.
            Inside, `ray.train.report`, `get_context` and `prepare_model` are paceline's.
        train_loop_config: what it gets.
        nodes: how many train, or the least and the most: `(2, 4)`.
        spares: further nodes that wait, joined and warm.
        resources: what Ray reserves for a node: "CPU", "GPU", "memory" in bytes, your own.
        ranks_per_node: by default the node's GPUs, or 1.
        name: of the job; the function's by default. Two jobs of one name do not run at once.
        storage: a directory that all hosts see, for checkpoints that the function reports.
        run_flags: more flags of `paceline run`, as words.
        datasets: refused. A `LeasedLoader`, or a loader of torch, reads data in the function.

    Raises:
        RayError: `datasets` were given.
    """

    def __init__(self, train_loop_per_worker: Callable[..., Any], *,
                 train_loop_config: dict[str, Any] | None = None,
                 nodes: int | tuple[int, int] = 1, spares: int = 0,
                 resources: dict[str, float] | None = None, ranks_per_node: int = 0,
                 name: str = "", storage: str = "", run_flags: list[str] | None = None,
                 datasets: object = None) -> None:
        if datasets:
            raise RayError(what="PacelineTrainer takes no datasets", where="datasets=…",
                           why="their shards are cut for a number of workers that never changes",
                           fix="read the data in the function, with a LeasedLoader or a DataLoader")
        least, most = (nodes, nodes) if isinstance(nodes, int) else nodes
        self._function, self._config = train_loop_per_worker, train_loop_config
        label = train_loop_per_worker.__name__.replace("_", "-").strip("-").lower() or "train"
        self._spec = JobSpec(
            name=name or label, nodes_min=least, nodes_max=most, spares=spares,
            nproc_per_node=ranks_per_node, resources={"CPU": 1.0} | (resources or {}),
            target="paceline.integrations.ray.entry", is_module=True,
            environment={"PACELINE_RAY_STORAGE": os.path.abspath(storage)} if storage else {},
            run_flags=tuple(run_flags or ()))

    def fit(self) -> Result:
        """Train, and return when the job has ended, also if it failed: look at `error`.

        If this process ends, the job goes on. While Ray has no room for a node, a line on standard
        error says for which one.
        """
        connect(os.environ.get("RAY_ADDRESS", ""))
        pickled = ray.cloudpickle.dumps((self._function, self._config))
        submit(self._spec, {"function": pickled, "path.json": json.dumps(sys.path).encode()})
        end = wait(self._spec.name, tell)
        report = json.loads(Store(self._spec.name).read("report") or b"{}")
        return Result(metrics=report.get("metrics", {}), checkpoint=report.get("checkpoint"),
                      exit_code=end["exit_code"],
                      error=None if end["exit_code"] == 0 else end["reason"])

