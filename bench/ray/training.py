"""The same function for Ray Train and for paceline: a checkpoint each step, and a stamp.

    python bench/ray/training.py paceline NAME DIR
    python bench/ray/training.py ray-train NAME DIR

Each rank appends a JSON line with its step and CLOCK_MONOTONIC to DIR/stamps/RANK.PID.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PAUSE_S = 0.05


def train_fn(config: dict[str, Any]) -> None:
    import ray.train
    import ray.train.torch
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: Any = ray.train.torch.prepare_model(torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = 1
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory) / "state.pt")
        model.load_state_dict(state["model"])
        begin = state["step"] + 1
    rank = ray.train.get_context().get_world_rank()
    points = torch.randn(32, 64)
    path = Path(config["stamps"]) / f"{rank}.{os.getpid()}"
    with path.open("a", buffering=1) as stamps:
        for step in range(begin, 1 << 60):
            model(points).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(PAUSE_S)
            print(json.dumps({"step": step, "at": time.monotonic()}), file=stamps)
            with tempfile.TemporaryDirectory() as directory:
                reported = None
                if rank == 0:
                    state = {"model": model.state_dict(), "step": step}
                    torch.save(state, Path(directory) / "state.pt")
                    reported = ray.train.Checkpoint.from_directory(directory)
                ray.train.report({"step": step}, checkpoint=reported)


def main() -> None:
    system, name, where = sys.argv[1:]
    directory = Path(where)
    config = {"stamps": str(directory / "stamps")}
    storage = str(directory / "storage")
    if system == "paceline":
        from paceline.integrations.ray import PacelineTrainer

        PacelineTrainer(train_fn, train_loop_config=config, nodes=2, spares=1, name=name,
                        storage=storage).fit()
        return
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init(address=os.environ["RAY_ADDRESS"])
    TorchTrainer(
        train_fn, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=storage,
                             failure_config=FailureConfig(max_failures=-1),
                             checkpoint_config=CheckpointConfig(num_to_keep=2))).fit()


if __name__ == "__main__":
    main()
