"""Every wrong argument of a public call is an ArgumentError in four parts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from paceline._base import arguments
from paceline._base.wording import described
from paceline._checkpoint.interval import parse_every, terms
from paceline._checkpoint.link import Link
from paceline._checkpoint.save_order import step_of
from paceline._checkpoint.ticket import Ticket
from paceline._storage.storage_place import place_of
from paceline.errors import PacelineError
from paceline.sources.lines import Lines
from paceline.sources.ranges import ByteRanges
from paceline.sources.table import TableRows
from paceline.sources.tar import TarSamples

import paceline
from paceline import numpy as pl
from paceline.data import (
    ArgumentError,
    CutBySpeed,
    ElasticDataset,
    ElasticLoader,
    ElasticMixture,
    LeasedLoader,
    StreamLoader,
)


class Thing:
    """Of no type that an argument may have. Its name is the same in every process."""

    def __repr__(self) -> str:
        return "a thing"


OBJECT = Thing()
WRONG = (math.nan, math.inf, -1, 1e30, 10**30, "1", "", b"1", True, numpy.True_, [], {}, OBJECT)
POSITIVE: dict[str, Callable[[Any], object]] = {
    "Checkpointer keep": lambda v: terms(keep=v, every=None),
    "Checkpointer replicas": lambda v: terms(keep=1, every=None, replicas=v),
    "Checkpointer.save": step_of,
    "ElasticDataset seed": lambda v: ElasticDataset(range(9), seed=v),
    "ElasticDataset block": lambda v: ElasticDataset(range(9), block=v),
    "ElasticDataset window": lambda v: ElasticDataset(range(9), block=4, window=v),
    "ElasticMixture length": lambda v: mixture(length=v),
    "ElasticLoader global_batch": lambda v: loader(global_batch=v),
    "ElasticLoader micro_batch": lambda v: loader(micro_batch=v),
    "ElasticLoader virtual_ranks": lambda v: loader(virtual_ranks=v),
    "ElasticLoader rank": lambda v: loader(rank=v, world_size=2),
    "ElasticLoader world_size": lambda v: loader(rank=0, world_size=v),
    "StreamLoader": lambda v: StreamLoader(range(9), global_batch=v),
    "LeasedLoader batch": lambda v: leased(batch=v),
    "LeasedLoader epochs": lambda v: leased(epochs=v),
    "LeasedLoader lease": lambda v: leased(lease=v),
    "LeasedLoader ahead": lambda v: leased(ahead=v),
    "LeasedLoader failures": lambda v: leased(failures=v),
    "LeasedLoader deadline": lambda v: leased(deadline=v),
    "CutBySpeed least": lambda v: CutBySpeed(least=v),
    "CutBySpeed most": lambda v: CutBySpeed(most=v),
    "CutBySpeed every": lambda v: CutBySpeed(every=v),
    "CutBySpeed gain": lambda v: CutBySpeed(gain=v),
    "ByteRanges size": lambda v: ByteRanges([], size=v),
    "step": paceline.step,
    "saved": paceline.saved,
}


class Nobody:
    def wait_for(self, ticket: Ticket, level: str, timeout: float | None) -> None:
        self.timeout = timeout


def loader(**options: Any) -> ElasticLoader:
    return ElasticLoader(ElasticDataset(range(64)), **{"global_batch": 8, **options})


def leased(**options: Any) -> LeasedLoader:
    return LeasedLoader(ElasticDataset(range(64)), **options)


def mixture(**options: Any) -> ElasticMixture:
    return ElasticMixture({"a": range(9)}, **{"weights": {"a": 1}, **options})


def refused(call: Callable[[], object]) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        call()
    error = caught.value
    assert all((error.what, error.where, error.why, error.fix))
    assert isinstance(error, (PacelineError, ValueError, TypeError))
    return error


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("name", POSITIVE)
def test_numbers(name: str, value: Any) -> None:
    refused(lambda: POSITIVE[name](value))


@pytest.mark.parametrize("value", [math.nan, -1, -0.001, -math.inf, "1", b"1", True, [], OBJECT],
                         ids=repr)  # fmt: skip
def test_timeouts(value: Any) -> None:
    assert "timeout" in refused(lambda: Ticket(Nobody(), 1).wait("durable", timeout=value)).what


@pytest.mark.parametrize("value", [None, math.inf, 1e30, 10**30, 10**400])
def test_a_timeout_without_an_end_is_no_limit(value: Any) -> None:
    owner = Nobody()
    if value == 10**400:
        refused(lambda: Ticket(owner, 1).wait("durable", timeout=value))
        return
    Ticket(owner, 1).wait("durable", timeout=value)
    assert owner.timeout is None


def test_a_long_timeout_is_one_that_the_kernel_takes() -> None:
    link = object.__new__(Link)
    ours, theirs = __import__("socket").socketpair()
    link._socket, link._unread = ours, b""
    theirs.sendall(b'{"op": "durable"}\n')
    assert link._line(__import__("time").monotonic() + 9e8) == {"op": "durable"}
    ours.close()
    theirs.close()


@pytest.mark.parametrize("level", ["disk", "", None, 1, b"durable", ["durable"]])
def test_levels(level: Any) -> None:
    told = refused(lambda: Ticket(Nobody(), 1).wait(level))
    assert '"memory", "replicated" or "durable"' in told.why


@pytest.mark.parametrize("every", ["", "s", "nans", "infs", "1e30s", "-3", "0", 0, -1, 1.5, True,
                                   math.nan, b"10", ["5"], "5 parsecs", 10**30])  # fmt: skip
def test_intervals(every: Any) -> None:
    refused(lambda: parse_every(every))


def test_what_counts_as_a_number_is_one() -> None:
    assert step_of(numpy.int64(3)) == 3
    assert terms(keep=numpy.int32(2), every=None)["keep"] == 2  # pyright: ignore
    assert ElasticDataset(range(9), seed=numpy.int64(7)).terms()["seed"] == 7  # pyright: ignore
    assert parse_every(numpy.int64(9)) == {"steps": 9}  # pyright: ignore


def test_whole_numbers_of_numpy_are_numbers_in_all_of_the_data() -> None:
    whole = numpy.int64
    positions = loader(global_batch=whole(4), micro_batch=numpy.uint8(2), rank=whole(0),
                       world_size=whole(1))
    state = positions.state_dict()
    assert (state["global_batch"], type(state["global_batch"])) == (4, int)
    positions.load_state_dict({**state, "epoch": whole(1), "consumed": whole(4)})
    assert (positions.epoch, positions.consumed, type(positions.consumed)) == (1, 4, int)
    for name in ("sampler", "batch_sampler"):
        order = numpy.array([5, 2, 8, 1]) if name == "sampler" else numpy.array([[5, 2], [8, 1]])
        data: Any = ElasticDataset(range(9), **{name: order})  # pyright: ignore
        assert data.indices(0, 0, 4) == [5, 2, 8, 1]
        assert {type(index) for index in data.indices(0, 0, 4)} == {int}
        assert data.drawn(0) == ElasticDataset(range(9), **{name: order.tolist()}).drawn(0)
    with LeasedLoader(ElasticDataset(range(9)), epochs=whole(2), batch=whole(3),  # pyright: ignore
                      lease=whole(5), ahead=whole(1), failures=whole(2), name="whole",
                      resume="checkpoint") as one:
        for _ in one:
            one.mark(whole(3))  # pyright: ignore
            break


UNKNOWN: dict[str, tuple[Callable[..., object], str]] = {
    "batch_size of ElasticLoader": (loader, "global_batch="),
    "shuffle of ElasticLoader": (loader, "ElasticDataset("),
    "sampler of ElasticLoader": (loader, "ElasticDataset("),
    "batch_size of ElasticDataset": (lambda **v: ElasticDataset(range(9), **v), "global_batch="),
    "batch_size of ElasticMixture": (mixture, "global_batch="),
    "shuffle of StreamLoader": (
        lambda **v: StreamLoader([1], global_batch=1, **v), "ElasticDataset("),
    "batch_size of LeasedLoader": (leased, "batch="),
    "colour of LeasedLoader": (leased, "help(LeasedLoader)"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_argument_that_a_call_does_not_have(name: str) -> None:
    call, hint = UNKNOWN[name]
    argument, _, where = name.split(" ")
    error = refused(lambda: call(**{argument: 3}))
    assert error.what == f"{where} has no argument {argument}"
    assert hint in error.fix


def test_data_and_samplers_of_other_types() -> None:
    for make in (lambda: leased_of([1, 2]), lambda: ElasticLoader([1, 2], global_batch=1),
                 lambda: Lines(["/nowhere/a.jsonl"]),
                 lambda: ElasticDataset(range(9), batch_sampler=[1, 2])):  # pyright: ignore
        with pytest.raises(PacelineError) as caught:
            make()
        assert caught.value.fix
    for value in (3, 2.5, OBJECT):
        refused(lambda value=value: ElasticDataset(range(9), sampler=value))
        refused(lambda value=value: ElasticDataset(range(9), batch_sampler=value))


def leased_of(data: Any) -> LeasedLoader:
    return LeasedLoader(data, name="of")


FLAGS: dict[str, Callable[[Any], object]] = {
    "shuffle": lambda v: ElasticDataset(range(9), shuffle=v),
    "uneven": lambda v: leased(uneven=v),
    "leased drop_last": lambda v: leased(drop_last=v),
    "fingerprint": lambda v: ElasticDataset(range(9), fingerprint=v),
    "drop_last": lambda v: loader(drop_last=v),
    "even_steps": lambda v: loader(even_steps=v),
    "cut": lambda v: loader(cut=v),
    "strict": lambda v: pl.load("runs", {}, strict=v),
    "collate": lambda v: leased(collate=v),
    "gather": lambda v: CutBySpeed(gather=v),
    "resume": lambda v: leased(resume=v),
    "bad_samples": lambda v: leased(bad_samples=v),
    "name": lambda v: leased(name=v),
    "weights": lambda v: mixture(weights=v),
    "state": lambda v: pl.load("runs", v),
    "stream": lambda v: StreamLoader(v, global_batch=1),
    "paths": Lines,
    "Lines decode": lambda v: Lines([], decode=v),
    "TarSamples decode": lambda v: TarSamples([], decode=v),
    "ByteRanges decode": lambda v: ByteRanges([], decode=v),
    "ByteRanges border": lambda v: ByteRanges([], border=v),
    "TableRows source": lambda v: TableRows(v, "events"),
    "TableRows table": lambda v: TableRows("train.db", v),
    "TableRows key": lambda v: TableRows("train.db", "events", key=v),
    "TableRows columns": lambda v: TableRows("train.db", "events", columns=v),
}


@pytest.mark.parametrize("value", [1, 1.0, math.nan])
@pytest.mark.parametrize("name", FLAGS)
def test_what_is_no_number(name: str, value: Any) -> None:
    refused(lambda: FLAGS[name](value))


@pytest.mark.parametrize("columns", ["text", b"text", [], [1], [""], [None]], ids=repr)
def test_columns(columns: Any) -> None:
    refused(lambda: TableRows("train.db", "events", columns=columns))
    pytest.importorskip("pyarrow")
    from paceline.sources.parquet import ParquetRows

    refused(lambda: ParquetRows([], columns=columns))


@pytest.mark.parametrize("loss", ["1", b"1", True, [], [1.0, 2.0], OBJECT, 10**400], ids=repr)
def test_losses(loss: Any) -> None:
    assert "loss" in refused(lambda: paceline.step(1, loss=loss)).what


def test_a_loss_may_be_no_number_of_the_real_ones() -> None:
    for loss in (math.nan, math.inf, 1, numpy.float32(2), numpy.array(3.0)):
        assert paceline.step(1, loss=loss) is None  # pyright: ignore


class BytesPath(os.PathLike[bytes]):
    def __fspath__(self) -> bytes:
        return b"runs"

    def __repr__(self) -> str:
        return "a path of bytes"


@pytest.mark.parametrize("path", ["", None, 1, b"runs", BytesPath(), ["runs"]], ids=repr)
def test_paths(path: Any) -> None:
    refused(lambda: place_of(path))
    refused(lambda: pl.Checkpointer(path))
    refused(lambda: pl.load(path, {}))


def test_a_path_gets_its_slash_back_and_a_text_does_not() -> None:
    assert place_of(Path("s3://bucket/runs")) == "s3://bucket/runs"
    assert place_of("s3://bucket/runs/") == "s3://bucket/runs"
    assert refused(lambda: place_of("s3:/bucket/runs")).fix == "s3://bucket/runs"


def test_names_of_data_may_be_empty_and_not_long() -> None:
    assert ElasticDataset(range(9), name="").name == ""
    for name in ("x" * 201, "two\nlines", 7):
        refused(lambda name=name: ElasticDataset(range(9), name=name))  # pyright: ignore


def test_an_error_never_shows_a_whole_tensor() -> None:
    shown = arguments.refuse("save", "step", numpy.zeros(10_000), "a number", "0").what
    assert shown == "step=<numpy.ndarray> is not allowed"


def test_kinds_have_their_article() -> None:
    names = [described(one) for one in (1, [], numpy.zeros(1), {}, object())]
    assert names == ["an int", "a list", "an ndarray", "a dict", "an object"]
