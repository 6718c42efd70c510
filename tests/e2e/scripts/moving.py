"""Trains by a pipeline of which one stage is slower than planned: moving.py --out DIR [--slow N]

Time is counted and not measured: a layer takes rank 1 `--slow` times as long as rank 0. A line for
each step goes to DIR/steps, and the digest of the weights to DIR/weights.pt.
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import paceline.torch as pl
import torch
from paceline._data.cut import Clock
from torch import nn
from torch.nn.functional import mse_loss

from paceline import parallel

WIDTH, BATCH, LAYERS = 32, 8, 8
SECONDS = 0.03  # of a sample in a layer; evidence for a move has to last for ten seconds
NOW = [0.0]


class Layer(nn.Linear):
    """Takes counted time for each sample."""

    slow = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        NOW[0] += len(x) * SECONDS * (self.slow if os.environ.get("RANK") == "1" else 1.0)
        return torch.tanh(super().forward(x))


class Numbers:
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        source = torch.Generator().manual_seed(index)
        return torch.randn(WIDTH, generator=source), torch.randn(WIDTH, generator=source)


def cluster(count: int) -> dict[str, object]:
    """Equal devices on which a layer takes about as long as rank 0 counts."""
    kind = {"name": "cpu", "flops": 2.0 * WIDTH * WIDTH * 3 / SECONDS, "bandwidth": 1e12,
            "launch": 0.0, "memory": 1 << 34, "source": "test"}  # fmt: skip
    link = {"seconds": 1e-5, "bandwidth": 1e10}
    return {"schema": "paceline.cluster/1", "types": [kind], "node": count,
            "groups": [{"type": "cpu", "count": count}], "inner": link, "outer": link}  # fmt: skip


def await_noted(path: Path, step: int) -> None:
    """Until rank 0 has written its line of that step. After its save a new world does it no more.

    So rank 1 may not die before: rank 0 would be ended with it, between its save and its line.
    """
    while all(json.loads(line)[1] != step for line in path.read_text().split("\n")[:-1]):
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--slow", type=float, default=3.0)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--kill-after", type=int, default=-1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    Layer.slow = args.slow
    ranks, rank = int(os.environ["WORLD_SIZE"]), pl.rank()
    net = nn.Sequential(*[Layer(WIDTH, WIDTH) for _ in range(LAYERS)])
    args.out.mkdir(parents=True, exist_ok=True)
    with pl.Checkpointer(args.out / "saved", every=args.every) as saves:
        job = parallel.parallelize(
            net, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-3), loss=mse_loss,
            example=(torch.zeros(2, WIDTH), torch.zeros(2, WIDTH)), global_batch=BATCH, clip=1.0,
            cluster=cluster(ranks), checkpointer=saves,
            wishes={"pipeline": [ranks], "micro_batches": [4], "recompute": [False]},
        )  # fmt: skip
        job._executor.busy.clock = Clock(mark=lambda: NOW[0])
        if job._mover is not None:
            job._mover.evidence.now = lambda: NOW[0]
        loader = job.loader(Numbers(), seed=1)
        state = {**job.state, "data": loader}
        step = saves.restore(state)
        for batch in loader:
            if step >= args.steps:  # nothing is left for a world that begins after the last step
                break
            loss = float(job.step(batch).loss)
            saves.save(step, state)
            if rank == 0:
                stages = [(one.begin, one.end) for one in job.plan.stages]
                with (args.out / "steps").open("a") as file:
                    print(json.dumps([pl.generation(), step, loss, stages]), file=file)
            step += 1
            moves = job._note.coming.plan != ""
            if moves and args.kill_after >= 0 and pl.generation() <= 1 and rank == 1:
                await_noted(args.out / "steps", step - 1)
                os.kill(os.getpid(), signal.SIGKILL)  # the save has the plan, and storage has not
    weights = job.state_dict()
    if rank == 0:
        torch.save(weights, args.out / "weights.pt")


if __name__ == "__main__":
    main()
