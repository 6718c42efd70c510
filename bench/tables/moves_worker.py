"""A worker of moves.py: looks rows up and pushes to them, and stamps each call.

A line of FILE is the beginning on CLOCK_MONOTONIC, then the seconds of the lookup and of the push.
It ends when END is there.
"""

import argparse
import random
import time
from array import array
from pathlib import Path

from paceline._base import launch
from paceline._native import Bags, GradientSum, OptimizerSpec, Tables

import paceline as pl
from bench.tables.channel import DIM, whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    options = parser.parse_args()
    servers = launch.table_servers()
    assert servers is not None
    tables = Tables.served(*servers)
    rule = OptimizerSpec()
    rule.name, rule.rate = "adagrad", 0.05
    whole(lambda: tables.open("ads", DIM, rule, 0, 0.05, 0))
    chance = random.Random(pl.rank())
    step = 0

    def once(keys: "array[int]") -> tuple[float, float]:
        nonlocal step
        step += 1
        rows = array("f", bytes(4 * len(keys) * DIM))
        bags = Bags.of_width(keys.buffer_info(), 1, is_mean=False)
        begin = time.perf_counter()
        whole(lambda: tables.look_up(0, DIM, bags, True, rows.buffer_info()))
        looked_up = time.perf_counter() - begin
        gradient = GradientSum(DIM)
        gradient.add(bags, rows.buffer_info())
        at = (pl.rank() << 40) + step
        begin = time.perf_counter()
        whole(lambda: tables.push("clicks", [(at, at + 1)], pl.rank(), 1, 0, [(0, gradient)]))
        return looked_up, time.perf_counter() - begin

    # Each worker admits its part of the rows.
    share = range(pl.rank(), options.rows, pl.world_size())
    for first in range(0, len(share), 1 << 17):
        once(array("q", share[first : first + (1 << 17)]))
    (options.folder / f"filled-{pl.rank()}").touch()
    with (options.folder / f"calls-{pl.rank()}").open("w") as calls:
        while not (options.folder / "end").exists():
            keys = array("q", chance.sample(range(options.rows), options.keys))
            begin = time.monotonic()
            looked_up, pushed = once(keys)
            calls.write(f"{begin} {looked_up} {pushed}\n")


if __name__ == "__main__":
    main()
