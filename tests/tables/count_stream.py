"""A worker that counts the records of a stream in a table: each one adds 1 to three rows.

    count_stream.py --url URL --end FILE [--serve DIR] [--delay SECONDS]

A record is a number n. Its rows are n, 10^8 + n % 7, and 10^9 of all. Records from 10^6 on only
make the loop go on, and count in their own row alone. The loop ends when FILE is there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import paceline.embedding as pe
import torch
from paceline.torch import LeasedLoader, Stream

WAKE = 10**6
BY_REST, OF_ALL = 10**8, 10**9


def decode(record: Any) -> torch.Tensor:
    n = int(record if isinstance(record, bytes) else record["n"])
    if n % 200 == 199:
        raise ValueError("each two hundredth is refused")
    return torch.tensor([n, n, n] if n >= WAKE else [n, BY_REST + n % 7, OF_ALL])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--end", type=Path, required=True)
    parser.add_argument("--serve")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--deadline", type=float, default=10.0)
    options = parser.parse_args()
    model = torch.nn.Sequential(
        pe.EmbeddingBag(pe.Table("counts", dim=1, optimizer=pe.SGD(1.0), scale=0.0)))
    opt = pe.Optimizer(model)
    if options.serve:
        pe.Publish(options.serve, opt, every=0.1)
    stream = Stream(options.url, decode=decode, name="records")
    loader = LeasedLoader(stream, batch_size=16, wait=0.05, deadline=options.deadline)
    for batch in loader:
        (-model(batch).sum()).backward()
        opt.step()
        time.sleep(options.delay)
        if options.end.exists():
            loader.done()
            break
    loader.close()


if __name__ == "__main__":
    main()
