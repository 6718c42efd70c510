"""An unchanged Estimator job: a worker, a server and the chief are killed while it trains."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from job import Job, JsonDict, eventually

LINEAR = Path(__file__).parent / "linear.py"
DEADLINE_S = 420.0  # five processes import TensorFlow, on a machine that may be busy
STEPS = 3000


def checkpoint_step(model: Path) -> int:
    """The newest step in the model's directory; 0: none."""
    try:
        found = re.match(r'model_checkpoint_path: "model.ckpt-(\d+)"',
                         (model / "checkpoint").read_text())
    except FileNotFoundError:
        return 0
    return int(found.group(1)) if found else 0


def tasks_of(job: Job) -> dict[str, JsonDict]:
    return {task["name"]: task for task in (job.status() or {}).get("tasks", [])}


def until_step(job: Job, model: Path, step: int) -> None:
    eventually(lambda: checkpoint_step(model) >= step or None, f"a checkpoint of step {step}",
               DEADLINE_S, job)


def test_an_estimator_job_survives_a_worker_a_server_and_its_chief(job: Job) -> None:
    model = job.directory / "model"
    job.be_patient().start(
        ["--tf", "--workers", "3", "--ps", "2"],
        [str(LINEAR), "--model-dir", str(model), "--steps", str(STEPS), "--delay", "0.05"])
    until_step(job, model, 50)
    for name in ("worker-1", "ps-0", "chief-0"):
        before = tasks_of(job)
        step = checkpoint_step(model)
        os.kill(before[name]["pid"], signal.SIGKILL)
        until_step(job, model, step + 100)
        after = tasks_of(job)
        assert after[name]["restarts"] == before[name]["restarts"] + 1
        assert {task: row["address"] for task, row in after.items()} == {
            task: row["address"] for task, row in before.items()}
        servers = [task for task in after if task.startswith("ps") and task != name]
        assert all(after[task]["pid"] == before[task]["pid"] for task in servers)
    assert job.wait(DEADLINE_S) == 0, job.stderr
    assert checkpoint_step(model) >= STEPS
    ended = {name: task["state"] for name, task in tasks_of(job).items()}
    assert ended == {"chief-0": "done", "worker-0": "done", "worker-1": "done",
                     "ps-0": "ended", "ps-1": "ended"}
    said = job.stdout + job.stderr
    loss = re.findall(r"Loss for final step: (\d+(?:\.\d+)?(?:e[-+]?\d+)?)", said)
    assert loss and float(loss[-1]) < 0.1, loss
