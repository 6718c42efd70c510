"""A Checkpointer belongs to the process that made it; a forked child of that may not touch it."""

import gc
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy
import paceline.numpy
import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError

pytestmark = pytest.mark.usefixtures("own_keeper")

Calls = dict[str, Callable[[Checkpointer], object]]


def state(value: float = 0.0) -> dict[str, object]:
    return {"x": torch.full((1000,), value)}


def in_child(work: Callable[[], object]) -> str:
    """What `work` raised in a forked process, as text; "" for nothing."""
    gc.collect()  # or the child collects what earlier tests have left: clients with threads, …
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = ""
        try:
            work()
        except CheckpointError as error:
            text = str(error)
        except BaseException:
            text = traceback.format_exc()
        os.write(writer, f"{os.getpid()}\n{text}".encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    number, _, text = told.partition("\n")
    assert number == str(pid)
    names = {number: "CHILD", str(os.getpid()): "PARENT"}
    return re.sub(r"\d+", lambda found: names.get(found[0], found[0]), text)


def saved_after(ckpt: Checkpointer, directory: Path) -> float:
    """The parent saves three more steps; what another Checkpointer restores then."""
    for step in (2, 3, 4):
        assert ckpt.save(step, state(step)).is_saved
    ckpt.close()
    found = state(-1)
    with Checkpointer(directory) as again:
        assert again.restore(found) == 5
    return float(found["x"][0])  # type: ignore[index]


CALLS: Calls = {
    "save": lambda ckpt: ckpt.save(99, state(99)),
    "save of a lower step": lambda ckpt: ckpt.save(0, state(99)),
    "restore": lambda ckpt: ckpt.restore(state(99)),
    "close": lambda ckpt: ckpt.close(),
    "fence": lambda ckpt: ckpt.fence(),
    "enter": lambda ckpt: ckpt.__enter__(),
    "end of a block": lambda ckpt: ckpt.__exit__(None, None, None),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path, name: str) -> None:
    ckpt = Checkpointer(tmp_path / "c", every=1)
    ckpt.save(1, state(1))
    told = in_child(lambda: CALLS[name](ckpt))
    assert "this Checkpointer belongs to another process" in told
    assert "process PARENT made it" in told and "process CHILD" in told
    assert "pl.load" in told
    assert saved_after(ckpt, tmp_path / "c") == 4.0


def test_a_ticket_is_waited_for_where_it_was_made(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c", every=1)
    ticket = ckpt.save(1, state(1))
    for level in ("memory", "durable"):
        told = in_child(lambda level=level: ticket.wait(level))
        assert "cannot wait for a save: this Checkpointer belongs to another process" in told
    assert saved_after(ckpt, tmp_path / "c") == 4.0


def test_a_child_that_saves_beside_its_parent_takes_nothing(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c", every=1)
    ckpt.save(1, state(1))
    pid = os.fork()
    if pid == 0:
        for step in range(1000, 1050):
            try:
                ckpt.save(step, state(step))
            except CheckpointError:
                continue
            os._exit(1)
        os._exit(0)
    for step in range(2, 52):
        ckpt.save(step, state(step))
    assert os.waitpid(pid, 0)[1] == 0
    ckpt.close()
    found = state(-1)
    with Checkpointer(tmp_path / "c") as again:
        assert again.restore(found) == 52


def leave_by_an_exception(ckpt: Checkpointer) -> None:
    try:
        with pytest.MonkeyPatch.context() as _:
            raise SystemExit
    except SystemExit:
        ckpt.__exit__(SystemExit, SystemExit(), None)


def drop(held: list[Checkpointer]) -> None:
    held.clear()
    gc.collect()


def test_a_child_may_drop_it_or_leave_its_block_by_an_exception(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c", every=1)
    ckpt.save(1, state(1))
    assert in_child(lambda: leave_by_an_exception(ckpt)) == ""
    assert saved_after(ckpt, tmp_path / "c") == 4.0


def test_a_child_may_exit_and_collect_what_it_inherited(tmp_path: Path) -> None:
    held = [Checkpointer(tmp_path / "c", every=1)]
    held[0].save(1, state(1))
    assert in_child(lambda: drop(held)) == ""
    pid = os.fork()
    if pid == 0:
        try:
            sys.exit(0)
        finally:
            held.clear()
            gc.collect()
            os._exit(0)
    os.waitpid(pid, 0)
    assert saved_after(held[0], tmp_path / "c") == 4.0


def test_an_optimizer_that_steps_in_a_child_is_not_kept_from_it(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ckpt = Checkpointer(tmp_path / "c", every=1, overlap=True)
    ckpt.save(1, state(1))
    assert in_child(optimizer.step) == ""
    assert saved_after(ckpt, tmp_path / "c") == 4.0


def test_the_same_over_arrays(tmp_path: Path) -> None:
    arrays: dict[str, object] = {"a": numpy.ones(3)}
    ckpt = paceline.numpy.Checkpointer(tmp_path / "c", every=1)
    ckpt.save(1, arrays)
    assert "belongs to another process" in in_child(lambda: ckpt.save(9, {"a": numpy.zeros(3)}))
    assert ckpt.save(2, arrays).is_saved
    ckpt.close()
    assert paceline.numpy.load(tmp_path / "c", arrays).step == 2
