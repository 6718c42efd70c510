"""What happens behind a script's back: while it trains, and when storage cannot be written."""

import resource
import threading
from pathlib import Path

import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError, load

pytestmark = pytest.mark.usefixtures("own_keeper")


def test_row_3_tensors_that_change_while_a_step_is_persisted(tmp_path: Path) -> None:
    """What is stored is the state at `save`, whatever the script does with it from then on."""
    state = {"model": torch.nn.Linear(1 << 20, 4, bias=False), "loose": torch.zeros(1 << 20)}
    weight = state["model"].weight  # pyright: ignore
    has_begun, done = threading.Event(), threading.Event()

    def scribble() -> None:
        while not done.is_set():
            with torch.no_grad():
                weight.add_(1)
                state["loose"].add_(1)  # pyright: ignore
            has_begun.set()

    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ckpt.restore(state)
        for step in range(3):
            with torch.no_grad():
                weight.fill_(step)
                state["loose"].fill_(step)  # pyright: ignore
            ticket = ckpt.save(step, state)
            has_begun.clear()
            done.clear()
            other = threading.Thread(target=scribble)
            other.start()
            assert has_begun.wait(60)
            ticket.wait("durable")
            done.set()
            other.join()
            assert not weight.eq(step).any(), "it did change meanwhile"
            found = {"model": torch.nn.Linear(1 << 20, 4, bias=False), "loose": None}
            assert load(tmp_path / "c", found).step == step
            assert found["model"].weight.eq(step).all()  # pyright: ignore
            assert found["loose"].eq(step).all()  # pyright: ignore


def test_row_3_tensors_that_change_while_they_are_copied(tmp_path: Path) -> None:
    """Nobody may do that, and it is not noticed; but the image holds, and so does the next one."""
    state = {"t": torch.zeros(1 << 22)}
    done = threading.Event()

    def scribble() -> None:
        while not done.is_set():
            state["t"].add_(1)

    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ckpt.restore(state)
        other = threading.Thread(target=scribble)
        other.start()
        for step in range(20):
            ckpt.save(step, state)
        done.set()
        other.join()
        expected = state["t"].clone()
        ckpt.save(20, state)
    found = {"t": None}
    again = Checkpointer(tmp_path / "c")
    assert again.restore(found) == 21
    assert torch.equal(found["t"], expected)  # pyright: ignore
    again.close()


def test_row_47_an_error_in_the_background_is_raised_by_wait(tmp_path: Path) -> None:
    state = {"t": torch.zeros(1000)}
    place = tmp_path / "c"
    ckpt = Checkpointer(place, every=1)
    ckpt.restore(state)
    place.rename(tmp_path / "away")
    place.write_text("a file, where a folder was")
    ticket = ckpt.save(0, state)
    with pytest.raises(CheckpointError, match="Not a directory") as raised:
        ticket.wait("durable")
    assert str(place) in str(raised.value)
    place.unlink()
    place.mkdir()
    for step in range(1, 1000):  # it is tried again after a pause
        try:
            ckpt.save(step, state).wait("durable")
            break
        except CheckpointError:
            threading.Event().wait(0.05)
    assert load(place, {"t": None}).step == step, "and a later one is stored"
    ckpt.close()


def test_a_limit_of_file_sizes_is_named(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ckpt = Checkpointer(tmp_path / "c")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(CheckpointError) as caught:
            ckpt.save(0, {"x": torch.ones(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "too large" in caught.value.why.lower() and "ulimit -f" in caught.value.fix
