"""Saves of tensors on a GPU, with a stand-in for its driver: what is whole, and who is held back.

The stand-in takes this process's memory for the device's. torch works on that memory at once and
not on a stream, so a test that trains beside a save waits for the default stream first, as each of
torch's kernels would. The same is tried on a GPU where there is one, at the end.
"""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import torch
from agent_double import wait_until
from paceline._state import torch_device
from paceline.torch import Checkpointer, CheckpointError
from torch.optim.optimizer import register_optimizer_step_pre_hook

from paceline import torch as pl

pytestmark = pytest.mark.usefixtures("own_keeper")

SOURCE = Path(__file__).parents[3] / "src/paceline/client/testing/cuda_stand_in.cc"
STEPS = 6
COPY_MICROSECONDS = 3_000
UNTIL_LET_GO = 50_000  # or until the next step is done


@pytest.fixture(scope="session")
def stand_in_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    library = str(tmp_path_factory.mktemp("cuda") / "cuda_stand_in.so")
    words = ["c++", "-std=c++20", "-shared", "-fPIC", "-pthread", "-o", library, str(SOURCE)]
    subprocess.run(words, check=True)
    return library


@pytest.fixture
def stand_in(stand_in_path: str, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """Tensors with dimensions are on the device; an optimizer's count of steps is not."""

    def is_on_gpu(tensor: torch.Tensor) -> bool:
        return tensor.dim() > 0

    def present_stream(_device: torch.device | None) -> int:
        return 0

    library = ctypes.CDLL(stand_in_path)
    library.stand_in_use()
    library.stand_in_set_copy_delay(ctypes.c_int64(0))
    library.stand_in_fail_after(-1)
    monkeypatch.setattr(torch_device, "LIBRARY", stand_in_path)
    monkeypatch.setattr(torch_device, "is_on_gpu", is_on_gpu)
    monkeypatch.setattr(torch_device, "present_stream", present_stream)
    return library


class Training:
    """Parameters, buffers that a forward pass changes, a frozen and a transposed tensor."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 8)
        )
        self.model[2].bias.requires_grad_(requires_grad=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.loose = torch.arange(12.0).reshape(3, 4).t()
        self.state = {"model": self.model, "optimizer": self.optimizer, "loose": self.loose}

    def step(self, before_kernels: Callable[[], None] = lambda: None) -> None:
        before_kernels()
        self.optimizer.zero_grad()
        self.loose += 1
        self.model(torch.randn(16, 64)).square().sum().backward()
        self.optimizer.step()

    def tensors(self) -> list[torch.Tensor]:
        inners = self.optimizer.state.values()
        moments = [value for inner in inners for _name, value in sorted(inner.items())]
        loose = cast("torch.Tensor", self.state["loose"])  # another one after a restore
        every = [*self.model.state_dict().values(), *moments, loose]
        return [tensor.detach().clone() for tensor in every]


def same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


def saved_at(directory: Path, step: int) -> list[torch.Tensor]:
    training = Training()
    training.step()  # an optimizer has a state to fill
    (folder,) = directory.glob(f"step-{step}-g*")
    pl.load(folder, training.state)
    return training.tensors()


@pytest.mark.parametrize("overlap", [False, True])
def test_what_the_device_copies_is_what_is_restored(
    overlap: bool, stand_in: ctypes.CDLL, tmp_path: Path
) -> None:
    training = Training()
    with Checkpointer(tmp_path / "c", overlap=overlap) as ckpt:
        assert ckpt.restore(training.state) == 0
        for step in range(STEPS):
            training.step()
            ticket = ckpt.save(step, training.state)
        ticket.wait("memory")
        # A thread beside the saves pins, slot after slot.
        wait_until(lambda: stand_in.stand_in_pinned_bytes() > 0, "memory is pinned")
    again = Training()
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(again.state) == STEPS
        assert same(again.tensors(), training.tensors())


def test_a_step_that_overlaps_is_saved_as_it_was(stand_in: ctypes.CDLL, tmp_path: Path) -> None:
    expected = train_beside(stand_in, tmp_path / "c", Checkpointer.fence)
    for step, tensors in expected.items():
        assert same(saved_at(tmp_path / "c", step), tensors), f"step {step}"


def test_without_a_fence_it_is_not(stand_in: ctypes.CDLL, tmp_path: Path) -> None:
    """So the test before can fail."""
    expected = train_beside(stand_in, tmp_path / "c", lambda _ckpt: None, UNTIL_LET_GO)
    found = [same(saved_at(tmp_path / "c", step), tensors) for step, tensors in expected.items()]
    assert not all(found)


def train_beside(
    stand_in: ctypes.CDLL,
    directory: Path,
    fence: Callable[[Checkpointer], None],
    copy_microseconds: int = COPY_MICROSECONDS,
) -> dict[int, list[torch.Tensor]]:
    """Each copy takes that long, or until the next step is done. Gives the states of all saves."""

    class Fenced(Checkpointer):
        def fence(self) -> None:
            fence(self)

    def kernels_wait() -> None:
        stand_in.stand_in_synchronize(None)

    training = Training()
    expected: dict[int, list[torch.Tensor]] = {}
    with Fenced(directory, overlap=True, every=1, keep=STEPS) as ckpt:
        ckpt.restore(training.state)
        # torch calls hooks in the order of their registration, so this one comes after the fence.
        hook = register_optimizer_step_pre_hook(lambda *_: kernels_wait())
        try:
            for step in range(STEPS):
                training.step(kernels_wait)
                stand_in.stand_in_set_copy_delay(ctypes.c_int64(copy_microseconds))
                expected[step] = training.tensors()
                ticket = ckpt.save(step, training.state)
                training.step(kernels_wait)
                stand_in.stand_in_set_copy_delay(ctypes.c_int64(0))
                ticket.wait("durable")
        finally:
            hook.remove()
    return expected


def test_what_the_script_lets_go_is_saved_all_the_same(
    stand_in: ctypes.CDLL, tmp_path: Path
) -> None:
    """An assignment to a parameter's data frees the bytes that it had."""
    model = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.ones(8 << 20))})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer}
    with Checkpointer(tmp_path / "c", overlap=True) as ckpt:
        ckpt.restore(state)
        stand_in.stand_in_set_copy_delay(ctypes.c_int64(50_000))
        ticket = ckpt.save(0, state)
        model["w"].data = torch.zeros(8 << 20)
        ticket.wait("memory")
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(state) == 1
        assert torch.equal(model["w"], torch.ones(8 << 20))


def test_a_device_that_fails_costs_that_step(stand_in: ctypes.CDLL, tmp_path: Path) -> None:
    training = Training()
    ckpt = Checkpointer(tmp_path / "c", overlap=True)
    ckpt.restore(training.state)
    training.step()
    ckpt.save(0, training.state).wait("durable")
    expected = training.tensors()
    training.step()
    stand_in.stand_in_fail_after(0)  # at once, in the training's thread
    with pytest.raises(CheckpointError, match="why    CUDA cannot copy from the device: unspec"):
        ckpt.save(1, training.state)
    stand_in.stand_in_fail_after(9)  # behind what that thread orders
    ticket = ckpt.save(1, training.state)
    with pytest.raises(CheckpointError, match="why    CUDA cannot copy from the device: unspec"):
        ticket.wait("memory")
    ckpt.close()
    again = Training()
    with Checkpointer(tmp_path / "c") as later:
        assert later.restore(again.state) == 1
        assert same(again.tensors(), expected)


def test_without_the_driver_there_is_another_way(
    stand_in: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    del stand_in
    monkeypatch.setattr(torch_device, "LIBRARY", "libno-such-driver.so")
    training = Training()
    with Checkpointer(tmp_path / "c", overlap=True) as ckpt:
        ckpt.restore(training.state)
        training.step()
        ckpt.save(0, training.state)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "by way of pinned memory: there is no libno-such-driver.so" in told
    again = Training()
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(again.state) == 1
        assert same(again.tensors(), training.tensors())


ENDS_AT_ONCE = """
import ctypes, sys, torch
from paceline import torch as pl
from paceline._state import torch_device
library = ctypes.CDLL(sys.argv[2])
library.stand_in_use()
library.stand_in_set_copy_delay(ctypes.c_int64(200_000))
torch_device.LIBRARY = sys.argv[2]
torch_device.is_on_gpu = lambda tensor: True
torch_device.present_stream = lambda device: 0
state = {"w": torch.ones(1000)}
ckpt = pl.Checkpointer(sys.argv[1], overlap=True)
ckpt.save(ckpt.restore(state), state)
"""


def test_the_last_save_of_a_script_that_ends_is_whole(stand_in_path: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", ENDS_AT_ONCE, str(tmp_path / "c"), stand_in_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    state = {"w": torch.zeros(1000)}
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(state) == 1
        assert torch.equal(state["w"], torch.ones(1000))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("overlap", [False, True])
def test_on_a_gpu(overlap: bool, tmp_path: Path) -> None:
    training = Training()
    training.model.cuda()
    training.loose = training.loose.cuda()
    training.state["loose"] = training.loose
    training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=0.01)
    training.state["optimizer"] = training.optimizer
    expected: dict[int, list[torch.Tensor]] = {}

    def step() -> None:
        training.optimizer.zero_grad()
        training.loose += 1
        training.model(torch.randn(16, 64, device="cuda")).square().sum().backward()
        training.optimizer.step()

    directory = tmp_path / "c"
    with Checkpointer(directory, overlap=overlap, every=1, keep=STEPS) as ckpt:
        ckpt.restore(training.state)
        for number in range(STEPS):
            step()
            expected[number] = [tensor.cpu() for tensor in training.tensors()]
            ticket = ckpt.save(number, training.state)
            step()
            ticket.wait("durable")
    for number, tensors in expected.items():
        assert same(saved_at(directory, number), tensors), f"step {number}"
