"""The workload of loss.py: a model under torch's DDP, or by a plan, with a Checkpointer.

    loss_training.py --stamps DIR --mode ddp|plan

A stamp of each process's first step, as small_ddp.py writes it, with what it trains by.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

BEGIN = time.monotonic()  # before torch is imported

import paceline.torch as pl  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from bench.plans.training import loss_of, make, make_optimizer  # noqa: E402

BATCH, SAMPLES = 24, 1_000_000
MODEL, SHAPE = make("transformer")


class Samples:
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full(SHAPE, index / SAMPLES), torch.zeros(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--mode", choices=("ddp", "plan"), required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    saves = pl.Checkpointer(args.stamps.parent / "saved", every=1_000_000)
    about: dict[str, Any] = {"rank": rank, "pid": os.getpid(), "world": dist.get_world_size(),
                             "begin": BEGIN}  # fmt: skip
    loader: Any
    if args.mode == "plan":
        from paceline import parallel

        example = (torch.zeros(2, *SHAPE), torch.zeros(2, 1))
        job = parallel.parallelize(
            MODEL, optimizer=make_optimizer, loss=loss_of, example=example, global_batch=BATCH,
            checkpointer=saves)  # fmt: skip
        loader = job.loader(Samples(), shuffle=False)
        state = {**job.state, "data": loader}

        def step_of(batch: Any) -> None:
            job.step(batch)
        about |= {"plan": job.plan.told(), "because": job.because}
    else:
        model = DistributedDataParallel(MODEL)
        optimizer = make_optimizer(model.parameters())
        loader = pl.ElasticLoader(pl.ElasticDataset(Samples(), shuffle=False), global_batch=BATCH)
        state = {"model": model, "optimizer": optimizer, "data": loader}

        def step_of(batch: Any) -> None:
            optimizer.zero_grad()
            (loss_of(model(batch[0]), batch[1]) * loader.weight).backward()
            optimizer.step()

    about["ready"] = time.monotonic()
    step = saves.restore(state)
    about |= {"first": step, "restored": saves.restored}
    with (args.stamps / f"{rank}.{os.getpid()}").open("a", buffering=1) as stamps:
        for number, batch in enumerate(loader, 1):
            step_of(batch)
            saves.save(step, state)
            step += 1
            if number == 1 or number % 10 == 0:
                print(json.dumps({**about, "step": number, "at": time.monotonic()}), file=stamps)


if __name__ == "__main__":
    main()
