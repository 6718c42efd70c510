"""How soon the first shuffled sample is there, and what the elastic loader costs beside torch's.

    .venv/bin/python -m bench.data.order --rounds 7 --peer PEERS/bin/python

First sample: from the data set to the first batch, at 10^6 and 10^9 samples, beside torch's
DistributedSampler (whose list of 10^9 indices does not fit here, so it is left out). Loader: one
epoch of small samples over two persistent workers, beside a plain DataLoader with shuffle=True; one
epoch warms both up. With --peer, an interpreter that has torch, torchdata, grain, ray[data] and
mosaicml-streaming, each of these in a process of its own (order_peer.py); what does not keep a
list gets 10^9 too. Systems alternate.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import torch
from paceline.torch import ElasticLoader
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from bench.data.order_peer import BATCH, SEED, WORKERS, Small
from bench.harness import Samples, machine
from paceline.data import ElasticDataset


def first_of_ours(count: int) -> None:
    data = ElasticDataset(Small(count), seed=SEED)
    next(iter(ElasticLoader(data, global_batch=BATCH, rank=0, world_size=1)))


def first_of_torch(count: int) -> None:
    data: Any = Small(count)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=SEED)
    next(iter(DataLoader(data, batch_size=BATCH, sampler=sampler)))


def seconds_of(batches: Iterable[object]) -> float:
    begin = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - begin


class Peer:
    """One process of order_peer.py."""

    def __init__(self, python: Path, name: str) -> None:
        script = Path(__file__).with_name("order_peer.py")
        self.name = name
        self.process = subprocess.Popen(
            [python, script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        self.version = self.answer()
        print(f"  {name} {self.version}", file=sys.stderr)

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"the peer {self.name} ended: {self.process.wait()}")
        return line

    def seconds(self, what: str, count: int) -> float:
        assert self.process.stdin is not None
        print(what, count, file=self.process.stdin, flush=True)
        return float(self.answer())

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


@contextlib.contextmanager
def started(python: Path | None, *names: str) -> Generator[list[Peer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Peer(python, name)) for name in names if python is not None]


Measured = dict[str, Callable[[], float]]


def timed(call: Callable[[int], None], count: int) -> float:
    begin = time.perf_counter()
    call(count)
    return time.perf_counter() - begin


def measure_first(samples: Samples, rounds: int, peers: list[Peer]) -> list[str]:
    systems: Measured = {
        "elastic 1e6": lambda: timed(first_of_ours, 10**6),
        "elastic 1e9": lambda: timed(first_of_ours, 10**9),
        "distributed_sampler 1e6": lambda: timed(first_of_torch, 10**6),
    }
    for peer in peers:
        systems[f"{peer.name} 1e6"] = lambda peer=peer: peer.seconds("first", 10**6)
        if peer.name == "grain":
            systems["grain 1e9"] = lambda peer=peer: peer.seconds("first", 10**9)
    for number in range(rounds + 1):
        for name, first in systems.items():
            took = first()
            if number:  # the first of each imports and allocates
                samples.add(name, took)
    return list(systems)


def measure_epochs(samples: Samples, rounds: int, count: int, peers: list[Peer]) -> list[float]:
    data: Any = Small(count)
    elastic = ElasticDataset(data, seed=SEED)
    several = {"num_workers": WORKERS, "persistent_workers": True}
    ours = ElasticLoader(elastic, global_batch=BATCH, **several)
    plain = DataLoader(data, batch_size=BATCH, shuffle=True, **several)
    systems: Measured = {
        "elastic epoch": lambda: seconds_of(ours),
        "plain epoch": lambda: seconds_of(plain),
    }
    for peer in peers:
        systems[f"{peer.name} epoch"] = lambda peer=peer: peer.seconds("epoch", count)
    ratios: list[float] = []
    for number in range(rounds + 1):
        order = list(systems) if number % 2 else list(reversed(systems))
        took = {name: systems[name]() for name in order}
        if number:
            for name, seconds in took.items():
                samples.add(name, seconds, samples=count)
            ratios.append(took["elastic epoch"] / took["plain epoch"])
    return ratios


def main() -> None:
    options = argparse.ArgumentParser(description="The order of data: first sample, loader.")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--samples", type=int, default=60_000, help="of the loaders' epochs")
    options.add_argument("--peer", type=Path, help="a Python that has the peers")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    torch.set_num_threads(1)
    samples = Samples("data_order")
    with started(args.peer, "stateful", "grain", "ray", "streaming") as peers:
        systems = measure_first(samples, args.rounds, peers)
    # Ray's daemons have ended then.
    with started(args.peer, "stateful", "grain") as peers:
        ratios = measure_epochs(samples, args.rounds, args.samples, peers)
    low, high = min(ratios), max(ratios)
    print(f"{samples.summary(*systems)} | elastic ÷ plain epoch, of pairs: "
          f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, n {len(ratios)})")


if __name__ == "__main__":
    main()
