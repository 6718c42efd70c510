"""How well samples are mixed: our orders beside py1e of MosaicML's streaming and a full shuffle.

    uv venv PEER && uv pip install --python PEER/bin/python --no-deps mosaicml-streaming numpy
    .venv/bin/python -m bench.data.shuffle --peer PEER/bin/python

2^20 samples in 1,024 shards of 1,024. `full` is NumPy's permutation, `whole` ours over everything;
`blocked` is ours with the shard as block and a window of 256 of them, `py1e` has the same 2^18
samples as its block (its default), with one canonical node. All in the order in which a world
reads, in batches of 256. Nothing here is timed but the making of an order, so the machine may be
busy. What the columns say, the mean over seeds; a perfect shuffle has 1 where a ratio is given:

neighbours   ÷ expected: how often two samples in a row come from one shard
run          the longest run of one shard
shards       ÷ expected: different shards in a batch
drift        ÷ expected: variance of the batches' means of a value that grows along the data, as if
             it were sorted by time
clump        the same of a value that each shard has for itself, as if shards were sources
moved        ÷ expected: how far a sample's place in the next epoch is from that in this one
together     ÷ expected: pairs of one batch that are in one batch again in the next epoch
open         shards that a reader must keep at once, at most: from the first to the last use of each
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from paceline._native import EpochOrder

from bench.harness import Samples, machine

N, SHARD, BATCH, WINDOW = 1 << 20, 1 << 10, 256, 256
SHARDS = N // SHARD
Order = Any  # an array: the sample at each place
COLUMNS = ("neighbours", "run", "shards", "drift", "clump", "moved", "together", "open")


def full(seed: int, epoch: int) -> tuple[Order, float]:
    begin = time.perf_counter()
    order = np.random.default_rng([seed, epoch]).permutation(N)
    return order, time.perf_counter() - begin


def ours(kind: str) -> Callable[[int, int], tuple[Order, float]]:
    def make(seed: int, epoch: int) -> tuple[Order, float]:
        begin = time.perf_counter()
        made = EpochOrder(N, seed, epoch, kind, *((SHARD, WINDOW) if kind == "blocked" else ()))
        order = np.array(made.samples(0, N))
        return order, time.perf_counter() - begin

    return make


def py1e(python: Path, told: dict[str, str]) -> Callable[[int, int], tuple[Order, float]]:
    def make(seed: int, epoch: int) -> tuple[Order, float]:
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/order.npy"
            numbers = map(str, (N, SHARD, seed, epoch, SHARD * WINDOW))
            peer = Path(__file__).with_name("shuffle_peer.py")
            words = [str(python), str(peer), out, *numbers]
            answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            seconds, told["version"] = answer.split()
            return np.load(out), float(seconds)

    return make


def quality(order: Order, following: Order, seed: int) -> dict[str, float]:
    assert np.array_equal(np.sort(order), np.arange(N)), "every sample once"
    shard = order // SHARD
    same = shard[1:] == shard[:-1]
    ends = np.flatnonzero(np.concatenate([[True], ~same, [True]]))
    batches = np.sort(shard.reshape(-1, BATCH), axis=1)
    distinct = 1 + (np.diff(batches, axis=1) != 0).sum(axis=1)
    expected = SHARDS * (1 - (1 - 1 / SHARDS) ** BATCH)
    first, last = np.full(SHARDS, N), np.zeros(SHARDS, np.int64)
    places = np.arange(N)
    np.minimum.at(first, shard, places)
    np.maximum.at(last, shard, places)
    alive = np.zeros(N + 1, np.int64)
    np.add.at(alive, first, 1)
    np.add.at(alive, last + 1, -1)
    sources = np.random.default_rng(seed).standard_normal(SHARDS)
    place, then = np.empty(N, np.int64), np.empty(N, np.int64)
    place[order], then[following] = places, places
    together = (place // BATCH) * (N // BATCH) + then // BATCH
    _, counts = np.unique(together, return_counts=True)
    pairs = (counts * (counts - 1) / 2).sum()
    return {
        "neighbours": float(same.mean() * (N - 1) / (SHARD - 1)),
        "run": float(np.diff(ends).max()),
        "shards": float(distinct.mean() / expected),
        "drift": inflation(order.astype(float)),
        "clump": inflation(sources[shard]),
        "moved": float(np.abs(place - then).mean() / (N / 3)),
        "together": float(pairs / (N * (BATCH - 1) / 2 * (BATCH - 1) / (N - 1))),
        "open": float(alive.cumsum().max()),
    }


def inflation(values: Order) -> float:
    """The variance of batch means ÷ that of batches drawn from all samples without replacement."""
    means = values.reshape(-1, BATCH).mean(axis=1)
    return float(means.var() / (values.var() / BATCH * (N - BATCH) / (N - 1)))


def main() -> None:
    options = argparse.ArgumentParser(description="The quality of a shuffle.")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--peer", type=Path, help="python of an environment with streaming")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    told: dict[str, str] = {}
    systems = {"full": full, "whole": ours("whole"), "blocked": ours("blocked")}
    if args.peer:
        systems["py1e"] = py1e(args.peer, told)
    samples = Samples("data_shuffle")
    for seed in range(args.seeds):
        for name, make in systems.items():
            order, took = make(seed, 0)
            following, _ = make(seed, 1)
            version = told if name == "py1e" else {}
            samples.add(name, took, seed=seed, **version, **quality(order, following, seed))
    print("| order | " + " | ".join(COLUMNS) + " | made in |")
    for name in systems:
        rows = [row for row in samples.rows if row["system"] == name]
        means = [statistics.fmean(row[column] for row in rows) for column in COLUMNS]
        print(f"| {name} | " + " | ".join(f"{mean:.4g}" for mean in means)
              + f" | {statistics.median(row['seconds'] for row in rows):.2f} s |")


if __name__ == "__main__":
    main()
