"""A training whose rows and whose dense parameter are counts: with SGD at rate 1 and a loss of
minus the sum, each sample adds 1 to each of its keys and to the bias.

    count_with_torch.py --out FILE --samples N [--delay SECONDS] [--hold FILE [--pause-at STEP]]

Worker 0 writes all rows and the bias to FILE when the data set is complete.
"""

import argparse
import json
import time
from pathlib import Path

import paceline.embedding as pe
import torch
from paceline.torch import ElasticDataset, LeasedLoader

import paceline as pl


class Counting(torch.nn.Module):
    def __init__(self, table: pe.Table) -> None:
        super().__init__()
        self.bag = pe.EmbeddingBag(table, mode="sum")
        self.bias = torch.nn.Parameter(torch.full((3_000,), 0.25))

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        return self.bag(keys).sum() + len(keys) * self.bias.sum()


def keys_of(sample: int) -> list[int]:
    return [sample, 10**6 + sample % 7, -1]


def wait_for(file: Path | None) -> None:
    while file is not None and not file.exists():
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--pause-at", type=int)
    options = parser.parse_args()
    table = pe.Table("counts", dim=2, optimizer=pe.SGD(1.0), scale=0.0)
    model = Counting(table)
    opt = pe.Optimizer(model, dense=pe.SGD(1.0))
    data = ElasticDataset([torch.tensor(keys_of(i)) for i in range(options.samples)], seed=3)
    for step, keys in enumerate(LeasedLoader(data, name="samples", batch_size=8), 1):
        if step == options.pause_at:
            wait_for(options.hold)
        (-model(keys)).backward()
        opt.step()
        pl.step(step)
        time.sleep(options.delay)
    wait_for(options.hold)
    if pl.rank() == 0:
        keys, rows = table.export()
        opt.pull()
        told = {
            "rows": dict(zip(map(str, keys), rows.tolist(), strict=True)),
            "bias": sorted(set(model.bias.tolist())),
        }
        options.out.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
