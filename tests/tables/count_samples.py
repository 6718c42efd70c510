"""A worker that pushes 1 for each sample to three rows, so that each row's value is a count.

    count_samples.py --out FILE --samples N --batch N [--delay SECONDS]
                     [--hold FILE [--pause-at N]]

The rows of a sample are its own, row 10^6 + sample % 7, and row 10^7 of all. The gradient is -1 and
SGD's rate is 1, so a row's value says how many of its samples were applied. At the end worker 0
writes all rows to FILE.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from array import array
from pathlib import Path

from paceline._base import launch
from paceline._native import (
    Bags,
    GradientSum,
    LeaseOpen,
    LeaseReader,
    OptimizerSpec,
    Tables,
)
from paceline._rank import progress

import paceline as pl

NAME = "samples"


def opened(options: argparse.Namespace) -> LeaseReader:
    work = LeaseOpen()
    work.name, work.terms = NAME, "{}"
    work.ordinals = options.samples
    work.rank, work.world_size = pl.rank(), pl.world_size()
    work.generation, work.incarnation = 0, progress.generation()
    work.lease_max = work.lease_first = 4 * options.batch
    work.lease_min = options.batch
    work.unit, work.epoch = options.batch, 0
    work.deadline_ms = options.deadline_ms
    return LeaseReader.open(launch.lease_socket() or "", 1, work)


def repeated(call):
    """The result of a call that is repeated while a server is away."""
    while True:
        result = call()
        if result is not None and result is not False:
            return result


def push(tables: Tables, table: int, begin: int, end: int, incarnation: int) -> None:
    keys = array("q")
    for sample in range(begin, end):
        keys.extend((sample, 10**6 + sample % 7, 10**7))
    ones = array("f", [-1.0] * len(keys))
    bags = Bags.of_width(keys.buffer_info(), 1, is_mean=False)
    gradient = GradientSum(1)
    gradient.add(bags, ones.buffer_info())
    answer, why = repeated(lambda: tables.push(
        data_set=NAME, batch=[(begin, end)], worker=pl.rank(), incarnation=incarnation,
        recovery=0, gradients=[(table, gradient)]))
    assert answer in ("applied", "skipped"), (answer, why)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--deadline-ms", type=int, default=10_000)
    parser.add_argument("--hold", type=Path, help="wait for this file before the end")
    parser.add_argument("--pause-at", type=int, help="and already before sample N")
    options = parser.parse_args()
    servers = launch.table_servers()
    assert servers is not None
    tables = Tables.served(*servers)
    optimizer = OptimizerSpec()
    optimizer.name, optimizer.rate = "sgd", 1.0
    table = tables_number(tables, optimizer)
    reader = opened(options)
    incarnation = progress.generation()
    while True:
        what, lease, begin, end, text = reader.take(0.2, True)
        if what == "complete":
            break
        if what in ("refused", "fenced"):
            raise RuntimeError(f"{what}: {text}")
        if what != "lease":
            continue
        for first in range(begin, end, options.batch):
            last = min(first + options.batch, end)
            if options.pause_at is not None and first >= options.pause_at:
                wait_for(options.hold)
            push(tables, table, first, last, incarnation)
            time.sleep(options.delay)
            if not reader.ack(lease, last):
                print(f"lost {first}", file=sys.stderr)
                break
    reader.close()
    wait_for(options.hold)
    if pl.rank() == 0:
        options.out.write_text(json.dumps(rows_of(tables, table)))


def wait_for(file: Path | None) -> None:
    while file is not None and not file.exists():
        time.sleep(0.02)


def tables_number(tables: Tables, optimizer: OptimizerSpec) -> int:
    # 0 is a number, too.
    while (number := tables.open("counts", 1, optimizer, 0, 0.0, 0)) is None:
        pass
    return number


def rows_of(tables: Tables, table: int) -> dict[str, float]:
    keys, values = repeated(lambda: tables.export(table))
    return dict(zip((str(key) for (key,) in struct.iter_unpack("<Q", keys)),
                    (value for (value,) in struct.iter_unpack("<f", values)), strict=True))


if __name__ == "__main__":
    main()
