"""Scripts that were not written for paceline, and that lose a raylet while they train."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray
import torch
from paceline.integrations.ray import PacelineTrainer
from paceline.integrations.ray.calls import NAMESPACE, ask
from ray_cluster import RayCluster, RayJob, eventually

OWN = Path(__file__).parent / "scripts"
EPOCHS = 600


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    made = RayCluster(raylets=4)
    ray.init(address=made.address, namespace=NAMESPACE, log_to_driver=False)
    yield made
    ray.shutdown()
    made.close()


def lose_a_node(cluster: RayCluster, job: RayJob) -> None:
    """Kill the raylet of a node in the world, with which the adapter does not share it."""
    eventually(lambda: len(job.places()) == 3, "the spare runs")
    kept = ask(job.adapter(), "ray_node")
    cluster.kill(next(job.places()[name] for name in job.seated() if job.places()[name] != kept))
    eventually(lambda: job.status()["summary"]["last"], "the master tells of the loss")


def test_a_script_written_for_torchrun_goes_on(cluster: RayCluster, tmp_path: Path) -> None:
    home, snapshot = tmp_path / "home", tmp_path / "snapshot.pt"
    home.mkdir()
    shutil.copy(OWN / "datautils.py", home)
    # The only change that a user makes: the snapshot goes where all hosts see it.
    script = (OWN / "multinode.py").read_text().replace('"snapshot.pt"', repr(str(snapshot)))
    (home / "multinode.py").write_text(script)
    submitted = cluster.run("submit", "--on", "ray", "--name", "torchrun", "--nodes", "2",
                            "--spares", "1", "--working-dir", str(home), "multinode.py",
                            str(EPOCHS), "1")
    assert submitted.returncode == 0, submitted.stderr
    job = RayJob(cluster, "torchrun", tmp_path)
    eventually(snapshot.exists, "the first epoch is saved")
    lose_a_node(cluster, job)
    assert job.wait() == 0
    assert torch.load(snapshot)["EPOCHS_RUN"] == EPOCHS - 1


def test_an_example_of_ray_train_with_its_trainer_changed_goes_on(cluster: RayCluster,
                                                                  tmp_path: Path) -> None:
    """Ray's wheel has it: `python -m ray.train.examples.pytorch.torch_linear_example`."""
    from ray.train.examples.pytorch import torch_linear_example as example

    config = {"lr": 1e-2, "hidden_size": 1, "batch_size": 4, "epochs": 100}
    trainer = PacelineTrainer(example.train_func, train_loop_config=config, nodes=2, spares=1,
                              name="linear", storage=str(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        fitting = pool.submit(trainer.fit)
        eventually(lambda: list(tmp_path.glob("checkpoint_*")), "the first epoch is reported")
        lose_a_node(cluster, RayJob(cluster, "linear", tmp_path))
        result = fitting.result()
    assert result.exit_code == 0, result.error
    assert result.metrics["loss"] < 0.1
    assert result.checkpoint is not None
    weights = torch.load(Path(result.checkpoint) / "model.pt")
    assert sum(weight.numel() for weight in weights.values()) == 2, "y = 2 x + 5"
