"""Two ranks by a plan of equal shares, one of which is slow. JSON on stdout.

Time is counted and not measured: each sample takes rank 1 three times as long.
"""

import json
import os
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
from paceline._data.cut import Clock
from torch import nn
from torch.nn.functional import mse_loss

from paceline import parallel

STEPS, BATCH, SECONDS_MAX = 32, 24, 540
NOW = [0.0]


class Slow(nn.Module):
    """Takes counted time for each sample."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.is_initialized():
            NOW[0] += len(x) * (3e-3 if dist.get_rank() == 1 else 1e-3)
        return x


class Numbers:
    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        source = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=source), torch.randn(2, generator=source)


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), Slow(), nn.Linear(16, 2))


def adam(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-3)  # type: ignore[arg-type]


def planned(example: tuple[torch.Tensor, torch.Tensor]) -> dict[str, object]:
    """Equal shares, as if both ranks were as fast as rank 0."""
    study = parallel.describe(model(), example, mse_loss, optimizer=adam)
    from paceline.parallel import cluster, planner
    from paceline.parallel.describe import text_of

    text = cluster.without_numbers([["cpu", 2]])
    wishes = {"global_batch": BATCH, "data": [2], "shard": [False], "micro_batches": [1]}
    plan = json.loads(planner.choose(text_of(study), text, wishes))
    plan["predicted"] |= {"compute": 12e-3, "bubble": 0.0, "communication": 1e-3, "step": 13e-3}
    plan["bound"] = 13e-3
    return plan


def train(rank: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    example = (torch.zeros(2, 8), torch.zeros(2, 2))
    job = parallel.parallelize(
        model(), optimizer=adam, loss=mse_loss, example=example, global_batch=BATCH,
        plan=planned(example), wishes={"data": [2], "shard": [False], "micro_batches": [1]},
    )  # fmt: skip
    loader = job.loader(Numbers(), seed=5)
    assert loader.by_speed is not None
    loader.by_speed.use_clock(Clock(mark=lambda: NOW[0]))
    shares = []
    for batch in loader:
        shares.append(len(batch[0]))
        job.step(batch)
    mine = torch.tensor(shares)
    rows = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(rows, mine)
    weights = job.state_dict()
    if rank == 0:
        worst = max(float((weights[name] - one).abs().max()) for name, one in alone().items())
        print(json.dumps({
            "shares": torch.stack(rows, 1).tolist(), "because": job.because,
            "plan_shares": job.plan.shares, "difference": worst,
        }), flush=True)  # fmt: skip
    dist.destroy_process_group()


def alone() -> dict[str, torch.Tensor]:
    """The same training in one process, with torch alone."""
    from paceline._data.order import ElasticDataset

    net, data = model().eval(), Numbers()
    optimizer = adam(net.parameters())
    order = ElasticDataset(data, shuffle=True, seed=5)
    for step in range(STEPS):
        rows = [data[n] for n in order.indices(0, step * BATCH, (step + 1) * BATCH)]
        optimizer.zero_grad()
        inputs, targets = (torch.stack(list(one)) for one in zip(*rows, strict=True))
        mse_loss(net(inputs), targets).backward()
        optimizer.step()
    return net.state_dict()


def main() -> int:
    signal.alarm(SECONDS_MAX)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        child = os.fork()
        if child == 0:
            train(1, path)
            os._exit(0)
        train(0, path)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
