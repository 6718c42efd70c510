"""How soon the first shuffled sample is there, and what the elastic loader costs beside torch's.

    .venv/bin/python bench/data_order.py --rounds 7

First sample: from the data set to the first batch, at 10^6 and 10^9 samples, beside torch's
DistributedSampler (whose list of 10^9 indices does not fit here, so it is left out). Loader: one
epoch of small samples over two persistent workers, beside a plain DataLoader with shuffle=True; one
epoch warms both up. Systems alternate.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterable

import torch
from harness import Samples, machine
from paceline.torch import ElasticLoader
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from paceline.data import ElasticDataset


class Small(Dataset[torch.Tensor]):
    """Samples of 64 bytes that cost nothing to make, so that the loaders' own work shows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(index))


def first_of_ours(count: int) -> None:
    data = ElasticDataset(Small(count), seed=7)
    next(iter(ElasticLoader(data, global_batch=64, rank=0, world_size=1)))


def first_of_torch(count: int) -> None:
    data = Small(count)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=7)
    next(iter(DataLoader(data, batch_size=64, sampler=sampler)))


def seconds_of(batches: Iterable[object]) -> float:
    begin = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - begin


def measure_first(samples: Samples, rounds: int) -> None:
    systems = {
        "elastic 1e6": lambda: first_of_ours(10**6),
        "elastic 1e9": lambda: first_of_ours(10**9),
        "distributed_sampler 1e6": lambda: first_of_torch(10**6),
    }
    for number in range(rounds + 1):
        for name, first in systems.items():
            begin = time.perf_counter()
            first()
            took = time.perf_counter() - begin
            if number:  # the first of each imports and allocates
                samples.add(name, took)


def measure_epochs(samples: Samples, rounds: int, count: int) -> list[float]:
    data = Small(count)
    ours = ElasticLoader(
        ElasticDataset(data, seed=7), global_batch=64, num_workers=2, persistent_workers=True
    )
    plain = DataLoader(
        data, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True
    )
    ratios: list[float] = []
    for number in range(rounds + 1):
        pair = {"elastic epoch": ours, "plain epoch": plain}
        order = list(pair) if number % 2 else list(reversed(pair))
        took = {name: seconds_of(pair[name]) for name in order}
        if number:
            for name, seconds in took.items():
                samples.add(name, seconds, samples=count)
            ratios.append(took["elastic epoch"] / took["plain epoch"])
    return ratios


def main() -> None:
    options = argparse.ArgumentParser(description="The order of data: first sample, loader.")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--samples", type=int, default=60_000, help="of the loaders' epochs")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    torch.set_num_threads(1)
    samples = Samples("data_order")
    measure_first(samples, args.rounds)
    ratios = measure_epochs(samples, args.rounds, args.samples)
    firsts = samples.summary("elastic 1e6", "elastic 1e9", "distributed_sampler 1e6")
    low, high = min(ratios), max(ratios)
    print(f"{firsts} | elastic ÷ plain epoch, of pairs: "
          f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, n {len(ratios)})")


if __name__ == "__main__":
    main()
