"""What each rank of a `PacelineTrainer` runs: `python -m paceline.integrations.ray.entry`.

The function was pickled by Ray's own serializer in the process that called `fit`, and is read from
a file that the node's actor wrote. Nothing else is unpickled here.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from paceline._base.whole_file import write_whole
from paceline.errors import ArgumentError

_KEPT = 2


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
        checkpoint: a `ray.train.Checkpoint`. Rank 0's is copied to the trainer's `storage`.

    Raises:
        ArgumentError: a checkpoint was given, and the trainer has no `storage`.
    """
    storage = os.environ.get("PACELINE_RAY_STORAGE", "")
    if checkpoint is not None and not storage:
        raise ArgumentError(what="there is no place for a checkpoint", where="ray.train.report",
                            why="the trainer has no storage, and this directory is temporary",
                            fix="PacelineTrainer(…, storage=DIR) with a directory of all hosts")
    if int(os.environ["RANK"]) != 0:
        return
    if checkpoint is not None:
        _store(Path(checkpoint.path), Path(storage))
    newest = _newest(storage)
    text = json.dumps({"metrics": metrics, "checkpoint": newest and str(newest)}, default=str)
    write_whole(os.environ["PACELINE_RAY_REPORT"], text)


def get_checkpoint() -> Any:
    """Stands where `ray.train.get_checkpoint` stood: the newest one in `storage`, or None."""
    from ray.train import Checkpoint

    newest = _newest(os.environ.get("PACELINE_RAY_STORAGE", ""))
    return None if newest is None else Checkpoint.from_directory(str(newest))


def _newest(storage: str) -> Path | None:
    found = sorted(Path(storage).glob("checkpoint_*")) if storage else []
    return found[-1] if found else None


def _store(source: Path, storage: Path) -> None:
    """Copy a checkpoint whole, and keep the newest two."""
    newest = _newest(str(storage))
    number = 0 if newest is None else int(newest.name.removeprefix("checkpoint_")) + 1
    for torn in storage.glob(".part-*"):  # of a rank 0 that was killed while it copied
        shutil.rmtree(torn, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=storage))
    shutil.copytree(source, part, dirs_exist_ok=True)
    part.rename(storage / f"checkpoint_{number:09}")
    for old in sorted(storage.glob("checkpoint_*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


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
    train.report, train.get_context, train.get_checkpoint = report, Context, get_checkpoint
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
