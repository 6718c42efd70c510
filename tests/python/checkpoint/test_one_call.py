"""A restore is alone with its state and its keeper."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError

pytestmark = pytest.mark.usefixtures("own_keeper")


class Slow:
    """Stands still in its state_dict, or in its load_state_dict, until it may go on."""

    def __init__(self, *, saves: bool) -> None:
        self._saves = saves
        self.is_there, self.may_go = threading.Event(), threading.Event()

    def _stand(self) -> None:
        self.is_there.set()
        assert self.may_go.wait(60)

    def state_dict(self) -> dict[str, int]:
        if self._saves:
            self._stand()
        return {"n": 1}

    def load_state_dict(self, _state: dict[str, int]) -> None:
        if not self._saves:
            self._stand()


def other_thread(work: Any, slow: Slow) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    assert slow.is_there.wait(60)
    return thread


def test_a_restore_beside_a_save_touches_nothing(tmp_path: Path) -> None:
    slow = Slow(saves=True)
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        slow.may_go.set()
        ckpt.save(0, {"x": torch.ones(3), "slow": slow})
        slow.may_go.clear()
        slow.is_there.clear()
        state = {"x": torch.full((3,), 5.0), "slow": Slow(saves=False)}
        saver = other_thread(lambda: ckpt.save(1, {"x": torch.ones(3), "slow": slow}), slow)
        with pytest.raises(CheckpointError, match=r"cannot restore: another thread is in save\(\)"):
            ckpt.restore(state)
        assert state["x"].tolist() == [5, 5, 5] and ckpt.restored == ""  # type: ignore[union-attr]
        slow.may_go.set()
        saver.join()
        state["slow"].may_go.set()  # type: ignore[union-attr]
        assert ckpt.restore(state) == 2


def test_whoever_saves_beside_a_restore_hears_it(tmp_path: Path) -> None:
    slow = Slow(saves=False)
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ticket = ckpt.save(0, {"x": torch.ones(3), "slow": slow})
        state = {"x": torch.zeros(3), "slow": slow}
        reader = other_thread(lambda: ckpt.restore(state), slow)
        for call in (
            lambda: ckpt.save(1, {"x": torch.ones(3)}),
            lambda: ckpt.restore({"x": torch.ones(3)}),
            ckpt.close,
            ticket.wait,
        ):
            with pytest.raises(CheckpointError, match=r"another thread is in restore\(\)"):
                call()
        slow.may_go.set()
        reader.join()
        assert state["x"].tolist() == [1, 1, 1]  # type: ignore[union-attr]
        assert ckpt.save(2, state).is_saved


def test_a_save_within_a_save_of_one_thread_is_its_own_matter(tmp_path: Path) -> None:
    """As in a signal's handler."""

    class Saves:
        def __init__(self) -> None:
            self.left = 1

        def state_dict(self) -> dict[str, int]:
            self.left -= 1
            if self.left == 0:
                assert ckpt.save(5, {"x": torch.ones(3)}).is_saved
            return {"n": 1}

        def load_state_dict(self, _state: dict[str, int]) -> None:
            pass

    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        assert ckpt.save(6, {"x": torch.ones(3), "s": Saves()}).is_saved
