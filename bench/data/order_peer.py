"""One peer of data_order.py, in a process and an interpreter of its own.

    python -m bench.data.order_peer stateful|grain|ray|streaming

Reads a line for each measurement, `first COUNT` or `epoch COUNT`, and prints the seconds it took.
Ray, whose samples are columns of blocks, and py1e alone have no epoch. A process a peer: Ray and
Grain start threads, beside which the forked workers of torch's loaders hang.
"""

# pyright: reportMissingImports=false

import importlib
import importlib.metadata
import sys
import time
from collections.abc import Iterable
from typing import Any

BATCH, WORKERS, SEED = 64, 2, 7


class Small:
    """Samples of 64 bytes that cost nothing to make, so that the loaders' own work shows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.full = importlib.import_module("torch").full

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.full((16,), float(index))


class SmallArrays(Small):
    """The same as NumPy arrays, which is what Grain batches."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> Any:
        import numpy as np

        return np.full((16,), float(index), np.float32)


class Stateful:
    """torchdata's StatefulDataLoader over torch's DistributedSampler."""

    package = "torchdata"

    def __init__(self) -> None:
        self.loader = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
        self.sampler = importlib.import_module("torch.utils.data.distributed").DistributedSampler
        self.warm: Any = None
        importlib.import_module("torch").set_num_threads(1)

    def first(self, count: int) -> Iterable[Any]:
        data = Small(count)
        order = self.sampler(data, num_replicas=1, rank=0, seed=SEED)
        return self.loader(data, batch_size=BATCH, sampler=order)

    def epoch(self, count: int) -> Iterable[Any]:
        if self.warm is None:
            several = {"num_workers": WORKERS, "persistent_workers": True}
            self.warm = self.loader(Small(count), batch_size=BATCH, shuffle=True, **several)
        return self.warm


class Grain:
    package = "grain"

    def __init__(self) -> None:
        grain = importlib.import_module("grain.python")
        self.map, self.options = grain.MapDataset, grain.MultiprocessingOptions

    def first(self, count: int) -> Iterable[Any]:
        return self.map.source(SmallArrays(count)).shuffle(seed=SEED).batch(BATCH)

    def epoch(self, count: int) -> Iterable[Any]:
        """Its worker processes begin anew for each epoch."""
        order = self.map.source(SmallArrays(count)).shuffle(seed=SEED).batch(BATCH)
        return order.to_iter_dataset().mp_prefetch(self.options(num_workers=WORKERS))


class Ray:
    package = "ray"

    def __init__(self) -> None:
        ray = importlib.import_module("ray")
        self.data = importlib.import_module("ray.data")
        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        self.data.DataContext.get_current().enable_progress_bars = False

    def first(self, count: int) -> Iterable[Any]:
        return self.data.range(count).random_shuffle(seed=SEED).iter_batches(batch_size=BATCH)


class Streaming:
    """MosaicML's py1e alone: the order of an epoch of 1,024 shards, which its reader waits for."""

    package = "mosaicml-streaming"

    def __init__(self) -> None:
        from bench.data.shuffle_peer import shuffles

        self.shuffle = shuffles().get_shuffle

    def first(self, count: int) -> Iterable[Any]:
        import numpy as np

        sizes = np.full(1024, count // 1024, np.int64)
        return self.shuffle("py1e", sizes, 1, SEED, 0, 1 << 18)


PEERS = {"stateful": Stateful, "grain": Grain, "ray": Ray, "streaming": Streaming}


def measured(peer: Any, what: str, count: int) -> float:
    make = peer.first if what == "first" else peer.epoch
    began = time.perf_counter()
    for _ in make(count):
        if what == "first":
            break
    return time.perf_counter() - began


def main() -> None:
    peer: Any = PEERS[sys.argv[1]]()
    print(importlib.metadata.version(peer.package), flush=True)
    for line in sys.stdin:
        what, count = line.split()
        print(measured(peer, what, int(count)), flush=True)


if __name__ == "__main__":
    main()
