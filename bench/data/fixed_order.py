"""What it costs that gradients are added in one order at any world size.

    .venv/bin/python -m bench.data.fixed_order --rounds 5

Two gloo ranks with one thread each train the same network on the same global batch of 256: with
DDP, with DDP in four batches a step (no_sync for all but the last), and with FixedOrderReduction
over eight virtual ranks, which has four batches a step too. The second is what its batches cost by
themselves, so the third against it is the cost of the order. Blocks of steps alternate; the time of
a step is the slower rank's.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta

import paceline.torch as pl
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from bench.harness import Samples, machine

WORLD = 2
BATCH = 256
PARTS = 4
STEPS = 8  # of an epoch
WIDTH = 1024


def network() -> nn.Module:
    torch.manual_seed(7)
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 1))


def data_of_all() -> pl.ElasticDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(BATCH * STEPS, WIDTH, generator=generator)
    return pl.ElasticDataset(TensorDataset(inputs, inputs.sum(1, keepdim=True)), seed=7)


def loss_of(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def with_ddp(parts: int) -> Callable[[], None]:
    loader = pl.ElasticLoader(data_of_all(), global_batch=BATCH, drop_last=True)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def epoch() -> None:
        for batch in loader:
            pieces = list(zip(*(one.chunk(parts) for one in batch), strict=True))
            for number, piece in enumerate(pieces):
                is_last = number + 1 == len(pieces)
                with contextlib.nullcontext() if is_last else model.no_sync():
                    (loss_of(model, list(piece)) / parts).backward()
            optimizer.step()
            optimizer.zero_grad()

    return epoch


def with_fixed_order() -> Callable[[], None]:
    loader = pl.ElasticLoader(
        data_of_all(), global_batch=BATCH, drop_last=True, virtual_ranks=WORLD * PARTS
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    fixed = pl.FixedOrderReduction(model.parameters(), loader)

    def epoch() -> None:
        for batch in loader:
            with fixed.part():
                loss_of(model, batch).backward()
            if loader.ends_step:
                fixed.reduce()
                optimizer.step()
                optimizer.zero_grad()

    return epoch


def work(rank: int, folder: str, rounds: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    place = f"file://{folder}/store"
    dist.init_process_group(
        "gloo", init_method=place, rank=rank, world_size=WORLD, timeout=timedelta(seconds=120)
    )
    systems = {
        "ddp": with_ddp(1),
        f"ddp, {PARTS} batches": with_ddp(PARTS),
        "fixed order": with_fixed_order(),
    }
    samples = Samples("data_fixed_order") if rank == 0 else None
    rows: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name in systems if number % 2 else reversed(systems):
            dist.barrier()
            begin = time.perf_counter()
            systems[name]()
            took = torch.tensor([(time.perf_counter() - begin) / STEPS])
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if number and samples is not None:  # the first warms all up
                samples.add(name, took.item())
                rows[name].append(took.item())
    if samples is not None:
        print(samples.summary(*systems))
        order = [a / b for a, b in zip(rows["fixed order"], rows[f"ddp, {PARTS} batches"],
                                       strict=True)]
        print(f"fixed order ÷ ddp, {PARTS} batches, of pairs: {statistics.median(order):.3f} "
              f"({min(order):.3f} to {max(order):.3f}, n {len(order)})")
    dist.destroy_process_group()


def main() -> None:
    options = argparse.ArgumentParser(description="The cost of sums in one order.")
    options.add_argument("--rounds", type=int, default=7)
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="fixed-order-") as folder:
        spawn(work, args=(folder, args.rounds), nprocs=WORLD)


if __name__ == "__main__":
    main()
