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
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline._base.whole_file import write_whole
from paceline.errors import ArgumentError

with suppress(ImportError):
    # The starter reads this line, and loads torch before there is a rank that needs it.
    import torch  # noqa: F401

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

    def get_experiment_name(self) -> str:
        """The job's name."""
        return os.environ.get("PACELINE_RAY_JOB", "")


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
    """Copy a checkpoint whole, and keep the newest two. The storage is made if it is not there."""
    storage.mkdir(parents=True, exist_ok=True)
    newest = _newest(str(storage))
    number = 0 if newest is None else int(newest.name.removeprefix("checkpoint_")) + 1
    for torn in storage.glob(".part-*"):  # of a rank 0 that was killed while it copied
        shutil.rmtree(torn, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=storage))
    shutil.copytree(source, part, dirs_exist_ok=True)
    part.rename(storage / f"checkpoint_{number:09}")
    for old in sorted(storage.glob("checkpoint_*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def get_devices() -> list[Any]:
    """Stands where `ray.train.torch.get_devices` stood."""
    import torch

    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    return [torch.device("cuda", int(os.environ["LOCAL_RANK"]))]


def get_device() -> Any:
    """Stands where `ray.train.torch.get_device` stood."""
    return get_devices()[0]


def prepare_model(model: Any, move_to_device: bool = True, parallel_strategy: str | None = "ddp",
                  parallel_strategy_kwargs: dict[str, Any] | None = None) -> Any:
    """Stands where `ray.train.torch.prepare_model` stood: the device of the rank, and DDP."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    _join_group()
    device = get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None:
        return model
    given = parallel_strategy_kwargs or {}
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, **given)
    ids: dict[str, Any] = {"device_ids": [device]} if device.type == "cuda" else {}
    return DistributedDataParallel(model, **(ids | given))


def _join_group() -> None:
    # Ray Train does this before it calls the function, which may gather without a prepared model.
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def prepare_data_loader(data_loader: Any, add_dist_sampler: bool = True,
                        move_to_device: bool = True, auto_transfer: bool = True) -> Any:
    """Stands where `ray.train.torch.prepare_data_loader` stood: a part for each rank."""
    from ray.train.torch.train_loop_utils import _WrappedDataLoader
    from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, SequentialSampler

    is_shared = isinstance(data_loader.sampler, DistributedSampler) or isinstance(
        data_loader.dataset, IterableDataset)
    if add_dist_sampler and not is_shared and Context().get_world_size() > 1:
        _join_group()
        shuffles = not isinstance(data_loader.sampler, SequentialSampler)
        data_loader = DataLoader(
            data_loader.dataset, batch_size=data_loader.batch_size,
            sampler=DistributedSampler(data_loader.dataset, shuffle=shuffles),
            **{name: getattr(data_loader, name) for name in (
                "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout",
                "worker_init_fn", "generator")})
    if not move_to_device:
        return data_loader
    return _WrappedDataLoader(data_loader, get_device(), auto_transfer)


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Stands where `ray.train.get_dataset_shard` stood, and refuses.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(what="there are no datasets of Ray", where="ray.train.get_dataset_shard",
                        why="their shards are cut for a number of workers that never changes",
                        fix="read the data in the function, with a LeasedLoader or a DataLoader")


def _stand_in() -> None:
    try:
        from ray import train
        from ray.train import torch as train_torch
    except ImportError:
        return  # a function that does not use Ray Train needs none of it
    of_train = {"report": report, "get_context": Context, "get_checkpoint": get_checkpoint,
                "get_dataset_shard": get_dataset_shard}
    of_torch = {"prepare_model": prepare_model, "prepare_data_loader": prepare_data_loader,
                "get_device": get_device, "get_devices": get_devices}
    for module, ours in ((train, of_train), (train_torch, of_torch)):
        for name, function in ours.items():
            theirs = getattr(module, name)
            setattr(module, name, function)
            # `from ray.train import report` in the pickled script names the module that defines it.
            setattr(sys.modules[theirs.__module__], name, function)


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
