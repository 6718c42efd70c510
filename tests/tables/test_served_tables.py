"""Table servers without a job: what a process gets from them, and what outlives their processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
import subprocess
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from job import binary, eventually
from paceline._native import Bags, GradientSum, OptimizerSpec, Tables

T = TypeVar("T")
DIM = 3


class Servers:
    """Servers of one job, each a process."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory, self.count = directory, count
        self.processes: list[subprocess.Popen[str] | None] = [None] * count
        self.starts = 0
        for number in range(count):
            self.start(number)

    @property
    def sockets(self) -> str:
        return ",".join(str(self.directory / f"s{number}") for number in range(self.count))

    def start(self, number: int) -> None:
        self.starts += 1
        socket = self.directory / f"s{number}"
        socket.unlink(missing_ok=True)
        env = {name: value for name, value in os.environ.items() if name != "PACELINE_LEASE_SOCKET"}
        self.processes[number] = subprocess.Popen(
            [binary(), "server", "--socket", socket, "--dir", self.directory / "tables",
             "--job-id", "job", "--number", str(number), "--servers", str(self.count),
             "--generation", str(self.starts), "--restarts", "0"],
            stderr=subprocess.PIPE, text=True, env=env)
        eventually(socket.exists, f"server {number} listens")

    def signal(self, number: int, what: signal.Signals) -> None:
        process = self.processes[number]
        assert process is not None
        process.send_signal(what)

    def end(self, number: int, how: signal.Signals) -> None:
        process = self.processes[number]
        if process is None:
            return
        self.processes[number] = None
        process.send_signal(how)
        process.communicate()

    def tables(self, job: str = "job") -> Tables:
        return Tables.served(self.sockets, job)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path, 2)
    yield made
    for number in range(made.count):
        made.end(number, signal.SIGKILL)


def waited(call: Callable[[], T | None]) -> T:
    while True:
        answer = call()
        if answer is not None and answer is not False:
            return answer


def opened(tables: Tables, name: str = "ads", *, rule: str = "adagrad", dim: int = DIM,
           budget: int = 0, scale: float = 0.5) -> int:
    optimizer = OptimizerSpec()
    optimizer.name, optimizer.rate = rule, 0.1
    return waited(lambda: tables.open(name, dim, optimizer, 7, scale, budget))


def bags_of(keys: array[int]) -> Bags:
    return Bags.of_width(keys.buffer_info(), 1, is_mean=False)


def look_up(
    tables: Tables, table: int, keys: list[int], *, is_training: bool = True
) -> list[float]:
    rows = array("f", [0.0] * (len(keys) * DIM))
    bags = bags_of(array("q", keys))
    waited(lambda: tables.look_up(table, DIM, bags, is_training, rows.buffer_info()))
    return list(rows)


def push(tables: Tables, table: int, batch: tuple[int, int], keys: list[int],
         values: list[float]) -> tuple[str, str]:
    gradient, floats = GradientSum(DIM), array("f", values)
    gradient.add(bags_of(array("q", keys)), floats.buffer_info())
    return waited(lambda: tables.push("clicks", [batch], 0, 1, 0, [(table, gradient)]))


def rows_of(tables: Tables, table: int) -> dict[int, tuple[float, ...]]:
    keys, values = waited(lambda: tables.export(table))
    found = struct.iter_unpack(f"<{DIM}f", values)
    return dict(zip((key for (key,) in struct.iter_unpack("<q", keys)), found, strict=True))


def count_of(tables: Tables, name: str = "ads") -> dict[str, int]:
    return next(one for one in waited(tables.counts) if one["name"] == name)


def train(tables: Tables, table: int, steps: range) -> None:
    for step in steps:
        chance = random.Random(step)
        keys = [chance.randrange(-50, 300) for _ in range(64)]
        look_up(tables, table, keys)
        values = [chance.uniform(-1, 1) for _ in range(64 * DIM)]
        assert push(tables, table, (step * 64, step * 64 + 64), keys, values) == ("applied", "")


def test_rows_of_servers_are_those_of_a_process(servers: Servers) -> None:
    own, served = Tables.own(), servers.tables()
    tables = [(own, opened(own)), (served, opened(served))]
    for ours, table in tables:
        train(ours, table, range(20))
    expected, found = (rows_of(ours, table) for ours, table in tables)
    assert len(expected) > 200
    assert found == expected, "bit by bit"
    keys = [*list(expected)[:9], 10**12]
    assert look_up(own, 0, keys, is_training=False) == look_up(served, 0, keys, is_training=False)
    assert push(served, 0, (0, 64), [1], [9.0] * DIM)[0] == "skipped"
    assert push(served, 0, (32, 96 + 64 * 20), [1], [9.0] * DIM)[0] == "overlaps"
    assert rows_of(served, 0) == expected


def test_a_batch_with_nan_changes_no_server(servers: Servers) -> None:
    tables = servers.tables()
    table = opened(tables)
    keys = list(range(100))
    look_up(tables, table, keys)
    before = rows_of(tables, table)
    values = [1.0] * (100 * DIM)
    values[41 * DIM + 1] = float("nan")
    answer, why = push(tables, table, (0, 100), keys, values)
    assert (answer, "key 41" in why, "ads" in why) == ("not finite", True, True), why
    assert rows_of(tables, table) == before
    assert push(tables, table, (0, 100), keys, [1.0] * (100 * DIM)) == ("applied", "")


def test_first_values_of_dense_tensors_outlive_a_server_without_a_snapshot(
    servers: Servers,
) -> None:
    tables = servers.tables()
    table = opened(tables, "dense.w", dim=8, scale=0.0)
    first = array("f", [float(i) for i in range(8 * 50)])
    waited(lambda: tables.init_dense([(table, 8, *first.buffer_info())]))
    for number in range(2):
        servers.end(number, signal.SIGKILL)
    shutil.rmtree(servers.directory / "tables", ignore_errors=True)
    for number in range(2):
        servers.start(number)
    found = array("f", [0.0] * len(first))
    waited(lambda: tables.pull_dense([(table, 8, *found.buffer_info())]))
    assert found == first


def test_a_server_that_ends_begins_again_where_it_was(servers: Servers) -> None:
    tables = servers.tables()
    table = opened(tables)
    train(tables, table, range(5))
    before = rows_of(tables, table)
    for number in range(2):
        servers.end(number, signal.SIGTERM)
        servers.start(number)
    assert rows_of(tables, table) == before
    assert push(tables, table, (0, 64), [1], [9.0] * DIM)[0] == "skipped"
    train(tables, table, range(5, 8))
    assert rows_of(tables, table) != before


def test_a_call_goes_on_when_a_frozen_server_answers(servers: Servers) -> None:
    tables, own = servers.tables(), Tables.own()
    table = opened(tables)
    assert opened(own) == table
    for one in (tables, own):
        train(one, table, range(3))
    servers.signal(1, signal.SIGSTOP)
    gradient, values = GradientSum(DIM), array("f", [1.0] * (40 * DIM))
    gradient.add(bags_of(array("q", range(40))), values.buffer_info())

    def ask(one: Tables) -> tuple[str, str] | None:
        return one.push("clicks", [(10**6, 10**6 + 40)], 0, 1, 0, [(table, gradient)])

    assert ask(tables) is None, "one server has answered, and the other one is frozen"
    servers.signal(1, signal.SIGCONT)
    assert waited(lambda: ask(tables)) == ("applied", "")
    assert ask(own) == ("applied", "")
    assert rows_of(tables, table) == rows_of(own, table), "once on both servers"


def test_the_budget_is_that_of_all_servers_together(servers: Servers) -> None:
    tables = servers.tables()
    table = opened(tables, budget=2**20)
    look_up(tables, table, list(range(100_000)))
    counts = count_of(tables)
    assert counts["budget"] == 2**20
    assert counts["refused"] > 0
    assert counts["rows"] == counts["admitted"] > 0
    assert counts["bytes"] <= 2**20


def test_a_table_has_one_form_for_all_workers(servers: Servers) -> None:
    opened(servers.tables())
    with pytest.raises(RuntimeError, match="ads"):
        opened(servers.tables(), rule="sgd")
    other = servers.tables("another job")
    optimizer = OptimizerSpec()
    assert other.open("ads", DIM, optimizer, 7, 0.5, 0) is None, "it is a server of another job"
