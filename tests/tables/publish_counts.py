"""A worker that counts samples in a table, and publishes versions of it.

    publish_counts.py --serve DIR --samples N --hold FILE

Each sample adds 1 to the row of its key, sample % 50. Worker 0 publishes on after its last batch,
until FILE is there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import paceline.embedding as pe
import torch
from paceline.torch import ElasticDataset, LeasedLoader

import paceline as pl

KEYS = 50


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--hold", type=Path, required=True)
    options = parser.parse_args()
    model = torch.nn.Sequential(
        pe.Embedding(pe.Table("counts", dim=1, optimizer=pe.SGD(1.0), scale=0.0)))
    opt = pe.Optimizer(model)
    publish = pe.Publish(options.serve, opt, every=0.05)
    samples = [torch.tensor(one % KEYS) for one in range(options.samples)]
    for batch in LeasedLoader(ElasticDataset(samples, seed=1), name="samples", batch_size=10):
        (-model(batch).sum()).backward()
        opt.step()
        time.sleep(0.02)
    while not options.hold.exists():
        if pl.rank() == 0:
            publish.now()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
