"""Data sets and samplers of many kinds, all in one loop: a model that counts each one's samples.

`--rows exact` has those that read each sample once an epoch; any other name is that of a row which
has to be refused.
"""

import argparse
import json
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import paceline.torch as pl
import torch
import torch.distributed as dist
from paceline.sources.lines import Lines
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler

from paceline.data import StreamLoader

COUNT, BATCH = 60, 12
RECORD = 512


class Plain:
    """Sample i is (i, i)."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return index, index


class Lazy(Plain):
    """Opens its file when it is first read, as h5py's and LMDB's users are told to."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, None

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = self.path.open("rb", buffering=0)
        self.file.seek(index * RECORD)
        return index, struct.unpack_from("<q", self.file.read(RECORD))[0]


class Noisy(Plain):
    """A random transform: the sample has a number that nobody knows beforehand."""

    def __getitem__(self, index: int) -> Any:
        return index, index, random.random() < 0.2


class Objects(Plain):
    """Rows as pandas gives them where columns have several types."""

    def __init__(self) -> None:
        self.rows = numpy.array([[i, f"word {i}"] for i in range(COUNT)], dtype=object)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


class Draws:
    def __init__(self, chance: Any, draw: Callable[[Any], list[int]]) -> None:
        self.chance, self.draw = chance, draw

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        return iter(self.draw(self.chance))


class Stream:
    """An iterable data set; `order` is asked anew for each epoch."""

    def __init__(self, order: Callable[[], list[int]]) -> None:
        self.order = order

    def __iter__(self) -> Iterator[Any]:
        return ((i, i) for i in self.order())


def generator(seed: int = 5) -> torch.Generator:
    chance = torch.Generator()
    chance.manual_seed(seed)
    return chance


def elastic(dataset: Any, name: str, workers: int = 0, **options: Any) -> Any:
    data = pl.ElasticDataset(dataset, seed=7, name=name, **options)
    batch = None if "batch_sampler" in options else BATCH
    return pl.ElasticLoader(data, global_batch=batch, num_workers=workers, collate_fn=list)


def stream(samples: Any, name: str) -> Any:
    return StreamLoader(samples, global_batch=BATCH, drop_last=True, name=name)


def permuted(chance: Any) -> list[int]:
    return chance.permutation(COUNT).tolist()


def sources(folder: Path) -> tuple[Path, Path]:
    """A file of records and one of lines, with another time in each process."""
    records, lines = folder / f"records-{pl.rank()}", folder / f"lines-{pl.rank()}" / "a.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    records.write_bytes(b"".join(struct.pack("<q", i) * (RECORD // 8) for i in range(COUNT)))
    lines.write_text("".join(f"[{i}, {i}]\n" for i in range(COUNT)))
    return records, lines


def exact(folder: Path) -> dict[str, Any]:
    records, lines = sources(folder)
    halves = random_split(Lazy(records), [COUNT // 2, COUNT // 2], generator=generator())
    distributed = DistributedSampler(Plain(), seed=7)
    rows = {
        "subset, lazy": elastic(Subset(Lazy(records), range(COUNT)), "subset", workers=1),
        "concat, lazy": elastic(ConcatDataset([Lazy(records)]), "concat", workers=2),
        "random_split, records": elastic(
            ConcatDataset(halves), "split", workers=1, fingerprint="records"),
        "random transform": elastic(Noisy(), "noisy", fingerprint="records"),
        "objects": elastic(Objects(), "objects", fingerprint="records"),
        "lines at another time": elastic(Lines([lines], decode=json.loads), "lines"),
        "torch's generator": elastic(
            Plain(), "torch", sampler=RandomSampler(Plain(), generator=generator())),
        "a subset's generator": elastic(Plain(), "part", sampler=SubsetRandomSampler(
            range(COUNT), generator=generator())),
        "numpy's generator": elastic(
            Plain(), "numpy", sampler=Draws(numpy.random.default_rng(3), permuted)),
        "batches, own generator": elastic(Plain(), "batches", batch_sampler=BatchSampler(
            RandomSampler(Plain(), generator=generator()), BATCH, False)),
        "wrapped DistributedSampler": pl.ElasticLoader.wrap(
            DataLoader(Plain(), batch_size=4, sampler=distributed, collate_fn=list),
            global_batch=BATCH, name="wrapped"),
        "a stream with a seed": stream(
            Stream(lambda: random.Random(3).sample(range(COUNT), COUNT)), "seeded"),
    }
    return {**rows, **libraries(folder)}


def shards(numbers: list[int]) -> Iterator[Any]:
    each = COUNT // 4
    for number in numbers:
        yield from ({"i": i, "x": i} for i in range(number * each, (number + 1) * each))


def libraries(folder: Path) -> dict[str, Any]:
    """Streams of datasets and of WebDataset, where these are installed."""
    rows: dict[str, Any] = {}
    try:
        import datasets
    except ImportError:
        pass
    else:
        whole = datasets.IterableDataset.from_generator(
            shards, gen_kwargs={"numbers": list(range(4))})
        rows["datasets"] = stream(whole.shuffle(seed=3, buffer_size=16), "datasets")
    try:
        import webdataset
    except ImportError:
        pass
    else:
        path = folder / f"tar-{pl.rank()}.tar"
        with webdataset.TarWriter(str(path)) as sink:
            for i in range(COUNT):
                sink.write({"__key__": f"{i:03}", "cls": i})
        made = webdataset.WebDataset([str(path)], shardshuffle=False, nodesplitter=None)
        made = made.shuffle(16, seed=3)
        rows["WebDataset"] = stream(made.decode().map(lambda s: (s["cls"], s["cls"])), "tar")
    return rows


def refused(name: str) -> Any:
    """One loader that cannot work on several ranks, or over a restart."""
    rank, size = dist.get_rank(), dist.get_world_size()
    hidden = random.Random()
    if name == "unseeded":
        return elastic(
            Plain(), name, sampler=Draws(numpy.random.default_rng(), permuted))
    if name == "seed by rank":
        return pl.ElasticLoader(
            pl.ElasticDataset(Plain(), seed=rank, name=name), global_batch=BATCH, collate_fn=list)
    if name == "distributed":
        return elastic(Plain(), name, sampler=DistributedSampler(Plain()))
    if name == "hidden":
        return elastic(Plain(), name, sampler=Draws(
            None, lambda _chance: hidden.sample(range(COUNT), COUNT)))
    if name == "split by node":  # as datasets.distributed.split_dataset_by_node
        return stream(Stream(lambda: list(range(COUNT))[rank::size]), name)
    if name == "shuffled by pid":  # as WebDataset's shuffles
        chance = random.Random(f"{os.getpid()} {time.time()}")
        return stream(Stream(lambda: chance.sample(range(COUNT), COUNT)), name)
    raise SystemExit(f"no row {name}")


class Passes:
    """Batches of one loader, epoch after epoch."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.batches = iter(loader)

    def next(self) -> Any:
        while True:
            for batch in self.batches:
                return batch
            self.batches = iter(self.loader)


def index_of(sample: Any) -> tuple[int, bool]:
    """Which sample it is, and whether its content is that of this sample."""
    if isinstance(sample, dict):
        return int(sample["i"]), sample["i"] == sample["x"]
    content = sample[1] if not isinstance(sample[1], str) else int(sample[1].split()[1])
    return int(sample[0]), int(sample[0]) == content


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--until", type=int, required=True)
    parser.add_argument("--rows", default="exact")
    parser.add_argument("--pace", type=float, default=0.05)
    parser.add_argument("--hold", type=int, help="nobody goes beyond it without a file OUT/go")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rows = exact(given.out) if given.rows == "exact" else {given.rows: refused(given.rows)}
    counts = torch.zeros(len(rows), COUNT + 1)  # the last column: samples with other bytes
    state = {"counts": counts, **{f"row {i}": row for i, row in enumerate(rows.values())}}
    ckpt = pl.Checkpointer(str(given.checkpoint), replicated=given.rows == "exact")
    step = ckpt.restore(state)
    passes = [Passes(row) for row in rows.values()]
    while step < given.until:
        seen = torch.zeros_like(counts)
        for number, one in enumerate(passes):
            for sample in one.next():
                index, is_right = index_of(sample)
                seen[number, index if is_right else COUNT] += 1
        dist.all_reduce(seen)
        state["counts"] += seen
        ckpt.save(step, state)
        step += 1
        pl.step(step)
        time.sleep(given.pace)
        while step == given.hold and not (given.out / "go").exists():
            time.sleep(0.02)
    ckpt.close()
    if dist.get_rank() == 0:
        told = dict(zip(rows, state["counts"].int().tolist(), strict=True))
        (given.out / "counts.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
