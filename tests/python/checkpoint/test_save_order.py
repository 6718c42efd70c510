"""The state that was saved last is the newest, whatever its step: `torch.save` is the twin.

Each use is a sequence of steps that a script saves under. The twin writes the same states to one
file, as a script does that has no Checkpointer; what it holds at the end is what must come back.
"""

import json
from pathlib import Path

import pytest
import torch
from agent_double import wait_until
from keepers import stopped_keeper
from paceline._checkpoint import save_order
from paceline._checkpoint.link import Link
from paceline._checkpoint.ticket import Ticket
from paceline.errors import CheckpointError
from paceline.torch import Checkpointer, load

pytestmark = pytest.mark.usefixtures("own_keeper")

USES = {
    "one after the other": [0, 1, 2, 3, 4],
    "every second one": [0, 2, 4, 6],
    "counted anew in each epoch": [0, 1, 2, 3, 4] * 3,
    "the same step twice": [5, 5],
    "always the same step": [0] * 7,
    "back after a loss spike": [10, 11, 12, 3, 4],
    "back, and beyond": [1, 2, 3, 2, 3, 4, 5],
    "backwards": [4, 3, 2, 1, 0],
}


def states_of(steps: list[int]) -> list[torch.Tensor]:
    return [torch.full((1000,), float(number)) for number in range(len(steps))]


@pytest.mark.parametrize("use", USES)
def test_what_was_saved_last_comes_back(use: str, tmp_path: Path) -> None:
    state = {"x": torch.zeros(1000)}
    ckpt = Checkpointer(tmp_path / "c")
    for step, values in zip(USES[use], states_of(USES[use]), strict=True):
        state["x"].copy_(values)
        assert ckpt.save(step, state).is_saved
        torch.save(state, tmp_path / "twin.pt")
    ckpt.close()
    twin = torch.load(tmp_path / "twin.pt")
    from_storage = {"x": torch.zeros(1000)}
    assert load(tmp_path / "c", from_storage).step == USES[use][-1]
    assert torch.equal(from_storage["x"], twin["x"])
    again = {"x": torch.zeros(1000)}
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(again) == USES[use][-1] + 1, ckpt.restored
    assert torch.equal(again["x"], twin["x"])


@pytest.mark.parametrize("use", USES)
def test_a_ticket_that_says_durable_is_durable(use: str, tmp_path: Path) -> None:
    state = {"x": torch.zeros(1000)}
    with Checkpointer(tmp_path / "c") as ckpt:
        for step, values in zip(USES[use], states_of(USES[use]), strict=True):
            state["x"].copy_(values)
            ckpt.save(step, state).wait("durable", timeout=60)
            stored = {"x": torch.zeros(1000)}
            load(tmp_path / "c", stored)
            assert torch.equal(stored["x"], values), f"step {step}"


def test_the_second_step_4_has_a_folder_of_its_own(tmp_path: Path) -> None:
    state = {"x": torch.zeros(10)}
    with Checkpointer(tmp_path / "c", keep=9) as ckpt:
        for step in (4, 4):
            ckpt.save(step, state).wait("durable")
    names = sorted(path.name for path in (tmp_path / "c").glob("step-*"))
    assert names == ["step-4-g1", "step-4-g1-b1"]
    assert (tmp_path / "c" / "LATEST").read_text() == "step-4-g1-b1\n"
    manifest = json.loads((tmp_path / "c" / "step-4-g1-b1" / "MANIFEST.json").read_text())
    assert (manifest["generation"], manifest["branch"], manifest["step"]) == (1, 1, 4)


def test_retention_follows_the_order_of_saving(tmp_path: Path) -> None:
    state = {"x": torch.zeros(10)}
    with Checkpointer(tmp_path / "c", keep=2) as ckpt:
        for step in (10, 11, 12, 3, 4):
            ckpt.save(step, state).wait("durable")
    # The keeper tidies after its answer.
    wait_until(lambda: len(list((tmp_path / "c").glob("step-*"))) == 2, "older ones are gone")
    names = sorted(path.name for path in (tmp_path / "c").glob("step-*"))
    assert names == ["step-3-g1-b1", "step-4-g1-b1"]


def test_one_line_tells_that_the_step_went_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    state = {"x": torch.zeros(10)}
    with Checkpointer(tmp_path / "c") as ckpt:
        for step in (7, 8, 3, 4):
            ckpt.save(step, state)
    lines = [line for line in capfd.readouterr().err.splitlines() if "is saved after" in line]
    assert lines == ["paceline: step 3 is saved after step 8: what is saved last is the newest"]


def test_a_checkpointer_that_is_opened_again_goes_on_in_the_order(tmp_path: Path) -> None:
    for number, steps in enumerate(([0, 1, 2], [0, 1], [1])):
        state = {"x": torch.zeros(10)}
        ckpt = Checkpointer(tmp_path / "c")
        ckpt.restore(state)
        for step in steps:
            state["x"].fill_(number)
            ckpt.save(step, state)
        ckpt.close()
        stored = {"x": torch.zeros(10)}
        assert load(tmp_path / "c", stored).step == steps[-1]
        assert stored["x"][0].item() == number


def test_branches_of_one_world_are_numbered_through() -> None:
    branches = save_order.Branches(generation=3)
    names = [save_order.order_of(branches.next(step)) for step in (5, 6, 6, 2, 3, 0)]
    assert names == [(3, 0, 5), (3, 0, 6), (3, 1, 6), (3, 2, 2), (3, 2, 3), (3, 3, 0)]
    assert names == sorted(names)


# ---- tickets ----


class Nobody:
    def wait_for(self, ticket: Ticket, level: str, timeout: float | None) -> None:
        raise AssertionError("nobody is asked for a save that nothing keeps")


@pytest.mark.parametrize("level", ["memory", "replicated", "durable"])
def test_the_ticket_of_a_save_that_nothing_keeps_says_so(level: str) -> None:
    ticket = Ticket(Nobody(), 7, lost="every slot for an image in memory was in use")
    assert not ticket.is_saved
    with pytest.raises(CheckpointError, match="step 7 is not saved") as error:
        ticket.wait(level)
    assert error.value.why == "every slot for an image in memory was in use"


def test_a_wait_with_a_timeout_ends_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"x": torch.zeros(10)}
    ckpt = Checkpointer(tmp_path / "c", every=1000)
    first = ckpt.save(0, state)
    withdraw = Link._withdraw
    # The keeper could be quick enough to answer. So it is stopped until the wait has ended.
    with stopped_keeper() as goes_on, monkeypatch.context() as patch:
        patch.setattr(Link, "_withdraw", lambda *words: (goes_on(), withdraw(*words)))
        with pytest.raises(TimeoutError, match="step 0"):
            first.wait("durable", timeout=0.0)
    second = ckpt.save(1, state)
    second.wait("durable", timeout=60)
    first.wait("durable", timeout=60)
    ckpt.close()
    assert load(tmp_path / "c", {"x": torch.zeros(10)}).step == 1


@pytest.mark.parametrize("timeout", [-1.0, -0.001])
def test_a_timeout_is_no_negative_number(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Ticket(Nobody(), 1).wait("durable", timeout=timeout)


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match='"memory", "replicated" or "durable"'):
        Ticket(Nobody(), 1).wait("disk")
