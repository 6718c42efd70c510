"""What each rank of a `PacelineTrainer` runs: `python -m paceline.integrations.ray.entry`.

The function was pickled by Ray's own serializer in the process that called `fit`, and is read from
a file that the node's actor wrote. Nothing else is unpickled here.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from paceline._base.whole_file import write_whole


class Context:
    """Stands where `ray.train.get_context()` stood."""

    def get_world_size(self) -> int:
        return int(os.environ["WORLD_SIZE"])

    def get_world_rank(self) -> int:
        return int(os.environ["RANK"])

    def get_local_rank(self) -> int:
        return int(os.environ["LOCAL_RANK"])

    def get_local_world_size(self) -> int:
        return int(os.environ["LOCAL_WORLD_SIZE"])

    def get_node_rank(self) -> int:
        return int(os.environ["GROUP_RANK"])


def report(metrics: dict[str, Any], checkpoint: Any = None, **_: Any) -> None:
    """Stands where `ray.train.report` stood: the result of `fit` has the last one of rank 0.

    Args:
        metrics: what JSON can hold; other values are kept as their text.
        checkpoint: a `ray.train.Checkpoint`, or a path.
    """
    if int(os.environ["RANK"]) != 0:
        return
    place = getattr(checkpoint, "path", checkpoint)
    text = json.dumps({"metrics": metrics, "checkpoint": place and str(place)}, default=str)
    write_whole(os.environ["PACELINE_RAY_REPORT"], text)


def prepare_model(model: Any, **_: Any) -> Any:
    """Stands where `ray.train.torch.prepare_model` stood: the device of the rank, and DDP."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    is_cuda = torch.cuda.is_available()
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if is_cuda else "gloo")
    if is_cuda:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        return DistributedDataParallel(model.to(device), device_ids=[device])
    return DistributedDataParallel(model)


def _stand_in() -> None:
    try:
        from ray import train
        from ray.train import torch as train_torch
    except ImportError:
        return  # a function that does not use Ray Train needs none of it
    train.report, train.get_context = report, Context
    train_torch.prepare_model = prepare_model


def main() -> None:
    """Read the function and call it."""
    from ray import cloudpickle

    _stand_in()
    files = Path(os.environ["PACELINE_RAY_FILES"])
    # First, because a function of a module is pickled by the module's name.
    path = json.loads((files / "path.json").read_text())
    sys.path += [folder for folder in path if folder not in sys.path]
    function, config = cloudpickle.loads((files / "function").read_bytes())
    if inspect.signature(function).parameters:
        function(config or {})
    else:
        function()


if __name__ == "__main__":
    main()
