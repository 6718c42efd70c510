"""How long do stages wait? Measured with layers that sleep, beside the planner's prediction.

    .venv/bin/python -m bench.plans.bubble

Four gloo processes train by plans of four stages and eight micro-batches. A layer sleeps for as
long in its forward pass, for the gradients of its input, and for those of its weights. So the
passes of four ranks run at the same time on any machine, and the step shows the order of the
passes alone. The planner gets the seconds of a layer, and nothing else that was measured.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from bench.harness import Samples, machine
from paceline import parallel

STAGES, MICRO_BATCHES, LAYERS, WIDTH = 4, 8, 16, 8
PLANS: dict[str, dict[str, list[Any]]] = {
    "1f1b": {"schedule": ["1f1b"], "virtual_stages": [1]},
    "interleaved, 2 chunks": {"schedule": ["interleaved-1f1b"], "virtual_stages": [2]},
    "interleaved, 4 chunks": {"schedule": ["interleaved-1f1b"], "virtual_stages": [4]},
    "zero bubble": {"schedule": ["zero-bubble"], "virtual_stages": [1]},
}


class Sleep(torch.autograd.Function):
    """Returns its input, after so many seconds in the forward and in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        ctx.seconds = backward
        if forward and not isinstance(x, FakeTensor):  # the description takes no time
            time.sleep(forward)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        time.sleep(ctx.seconds)
        return gradients[0], None, None


class Layer(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH))
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slept = Sleep.apply(x, self.seconds, self.seconds)
        return slept @ Sleep.apply(self.weight, 0.0, self.seconds)


def cluster(seconds: float) -> dict[str, Any]:
    """Devices on which a layer's forward pass takes so long."""
    kind = {"name": "sleeper", "flops": 2 * WIDTH * WIDTH / seconds, "bandwidth": 1e15,
            "launch": 0.0, "memory": 1 << 40, "source": "given"}  # fmt: skip
    link = {"seconds": 0.0, "bandwidth": 1e15}
    return {"schema": "paceline.cluster/1", "types": [kind], "node": STAGES, "inner": link,
            "groups": [{"type": "sleeper", "count": STAGES}], "outer": link}  # fmt: skip


def measured(rank: int, seconds: float, steps: int, store: str) -> list[dict[str, Any]]:
    """What each plan was predicted to take and took, as this rank saw it."""
    torch.set_num_threads(1)
    shared = dist.FileStore(store, STAGES)  # pyright: ignore[reportPrivateImportUsage]
    dist.init_process_group("gloo", store=shared, rank=rank,
                            world_size=STAGES)  # fmt: skip
    batch = (torch.zeros(MICRO_BATCHES, WIDTH), torch.zeros(MICRO_BATCHES, WIDTH))
    rows: list[dict[str, Any]] = []
    for name, wishes in PLANS.items():
        job = parallel.parallelize(
            nn.Sequential(*(Layer(seconds) for _ in range(LAYERS))),
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.0),
            loss=nn.functional.mse_loss, example=batch, global_batch=MICRO_BATCHES,
            cluster=cluster(seconds),
            wishes={"pipeline": [STAGES], "data": [1], "micro_batches": [MICRO_BATCHES],
                    "recompute": [False], **wishes},
        )  # fmt: skip
        took: list[float] = []
        for _ in range(steps + 1):
            dist.barrier()
            begin = time.perf_counter()
            job.step(batch)
            dist.barrier()
            took.append(time.perf_counter() - begin)
        rows.append({"plan": name, "predicted": job.plan.step_seconds,
                     "measured": statistics.median(took[1:]), "steps": took[1:]})  # fmt: skip
    return rows


def told(rows: list[dict[str, Any]]) -> None:
    """Each plan's step as a part of 1F1B's, measured and predicted."""
    plain = rows[0]
    for row in rows:
        for key in ("measured", "predicted"):
            row[f"{key}_ratio"] = row[key] / plain[key]
        ratios = f"{row['measured_ratio']:.3f}, predicted {row['predicted_ratio']:.3f}"
        print(f"{row['plan']:22} {row['measured']:.3f} s, predicted {row['predicted']:.3f} s; "
              f"÷ 1f1b {ratios}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a pass of a layer")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        children: list[int] = []
        for rank in range(1, STAGES):
            pid = os.fork()
            if pid == 0:
                measured(rank, args.seconds, args.steps, f"{folder}/store")
                os._exit(0)
            children.append(pid)
        rows = measured(0, args.seconds, args.steps, f"{folder}/store")
        for pid in children:
            os.waitpid(pid, 0)
    told(rows)
    samples = Samples("plan_bubble")
    for row in rows:
        for seconds in row["steps"]:
            samples.add(row["plan"], seconds, predicted=row["predicted"], layer=args.seconds)
    print(machine())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
