"""One rank of bench/plans/speed.py: trains a small model in one of three ways and times its steps.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=… MASTER_PORT=… \
      python -m bench.plans.training MODEL MODE [WISHES]

MODE `ddp` is torch's DistributedDataParallel with equal shares, `plan` what `parallelize` chooses,
limited to WISHES (JSON). Rank 0 prints one JSON line.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from paceline import parallel

BATCH, STEPS, WARM = 48, 12, 4


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def make(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A model, and the shape of a sample."""
    if name == "mlp":
        wide = [one for _ in range(8) for one in (nn.Linear(768, 768), nn.GELU())]
        return nn.Sequential(*wide, Mean(), nn.Linear(768, 16)), (64, 768)
    if name == "transformer":
        blocks = [nn.TransformerEncoderLayer(192, 4, 768, batch_first=True, dropout=0.0)
                  for _ in range(6)]  # fmt: skip
        return nn.Sequential(*blocks, Mean(), nn.Linear(192, 16)), (64, 192)
    if name == "head":  # most of the parameters, and of the exchange, are in the last layer
        blocks = [nn.Linear(256, 256) for _ in range(6)]
        return nn.Sequential(*blocks, Mean(), nn.Linear(256, 20_000)), (32, 256)
    raise SystemExit(f"there is no model {name}")


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return (output.float() - target[:, :1].float()).square().mean()


def make_optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def batches(shape: tuple[int, ...], share: int) -> Iterator[tuple[Tensor, Tensor]]:
    source = torch.Generator().manual_seed(1)
    batch = (torch.randn(share, *shape, generator=source), torch.randn(share, 1, generator=source))
    while True:
        yield batch


def timed(step: Any) -> list[float]:
    times = []
    for _ in range(WARM + STEPS):
        dist.barrier()
        begin = time.perf_counter()
        step()
        dist.barrier()  # a step has ended when all ranks' has
        times.append(time.perf_counter() - begin)
    return times[WARM:]


def main() -> None:
    if group := os.environ.get("CONTROL_GROUP"):
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    name, mode = sys.argv[1:3]
    wishes = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model, shape = make(name)
    told: dict[str, Any] = {"model": name, "mode": mode}
    if mode == "ddp":
        wrapped = DistributedDataParallel(model)
        optimizer = make_optimizer(wrapped.parameters())
        source = batches(shape, BATCH // dist.get_world_size())

        def step() -> None:
            inputs, targets = next(source)
            optimizer.zero_grad()
            loss_of(wrapped(inputs), targets).backward()
            optimizer.step()
    else:
        example = (torch.zeros(4, *shape), torch.zeros(4, 1))
        job = parallel.parallelize(model, optimizer=make_optimizer, loss=loss_of, example=example,
                                   global_batch=BATCH, wishes=wishes)  # fmt: skip
        plan = json.loads(job.plan.text)
        told |= {"plan": job.plan.told(), "shares": plan["shares"],
                 "layers": [one["layers"] for one in plan["stages"]],
                 "predicted": plan["predicted"]["step"]}  # fmt: skip
        replica = next((place % len(plan["shares"]) for one in plan["stages"]
                        for place, rank in enumerate(one["ranks"]) if rank == dist.get_rank()), 0)
        source = batches(shape, plan["shares"][replica])

        def step() -> None:
            job.step(next(source))

    times = timed(step)
    if dist.get_rank() == 0:
        print(json.dumps(told | {"step": statistics.median(times), "times": times}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
