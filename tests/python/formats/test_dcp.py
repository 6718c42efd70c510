"""PyTorch's distributed checkpoint over paceline's files, and out of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from dcp_alone import ALONE
from paceline.integrations.convert import main
from paceline.integrations.dcp import PacelineReader
from paceline.torch import Checkpointer
from small_training import goes_on_alike, make, same, train
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]
Saved = tuple[Path, torch.nn.Module, torch.optim.Optimizer]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    torch.manual_seed(3)
    net, optimizer = make()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    state = {"model": net, "optimizer": optimizer, "schedule": schedule, "seen": {"files": (1, 2)}}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        train(net, optimizer, 2)
        schedule.step()
        ckpt.save(2, state)
    return tmp_path / "c", net, optimizer


def test_dcp_loads_what_a_checkpointer_saved(saved: Saved) -> None:
    path, net, _ = saved
    other, _ = make()
    wanted: dict[str, Any] = {"model": other.state_dict(), "schedule": {"last_epoch": 0}}
    dcp.load(wanted, storage_reader=PacelineReader(path), **ALONE)
    assert same(wanted["model"], net.state_dict())
    assert wanted["schedule"]["last_epoch"] == 1


def test_the_reader_says_what_is_wrong(saved: Saved, tmp_path: Path) -> None:
    tensors = {"model": make()[0].state_dict()}
    with pytest.raises(CheckpointException, match="there is no checkpoint"):
        dcp.load(tensors, storage_reader=PacelineReader(tmp_path / "x"), **ALONE)
    (folder,) = saved[0].glob("step-*")
    victim = folder / "shard-00000.safetensors"
    text = bytearray(victim.read_bytes())
    text[-1] ^= 1
    victim.write_bytes(text)
    with pytest.raises(CheckpointException, match="not those that were saved"):
        dcp.load(tensors, storage_reader=PacelineReader(saved[0]), **ALONE)


def test_types_that_the_file_has_no_name_for_are_loaded_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers or bytes may not be taken for values of another type."""
    small = torch.ones(4).to(torch.float8_e4m3fnuz)
    state = {"x": small, "z": torch.ones(4) * 1j, "y": torch.ones(2)}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, state)
    wanted = {key: torch.zeros_like(one) for key, one in state.items()}
    dcp.load(wanted, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    assert all(torch.equal(wanted[key].float(), state[key].float()) for key in ("x", "y"))
    assert torch.equal(wanted["z"], state["z"])
    monkeypatch.delattr(torch, "float8_e4m3fnuz")  # as an older torch
    with pytest.raises(CheckpointException, match=r"a type that torch .* does not have"):
        dcp.load(
            {"x": torch.zeros(4, dtype=torch.uint8)},
            storage_reader=PacelineReader(tmp_path / "c"),
            **ALONE,
        )


def test_an_export_is_loaded_without_paceline(saved: Saved, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    path, net, optimizer = saved
    out = tmp_path / "dcp"
    assert main(["export", str(path), str(out)]) == 0
    assert main(["export", str(path), str(out)]) == 2, "never over something"
    assert main(["export", str(tmp_path / "x"), str(tmp_path / "y")]) == 2
    other, fresh = make()
    train(other, fresh, 1)
    model, opt = get_state_dict(other, fresh)
    state: dict[str, Any] = {"model": model, "optimizer": opt, "seen": {"files": None}}
    dcp.load(state, checkpoint_id=str(out), **ALONE)
    set_state_dict(other, fresh, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    assert same(net, other) and state["seen"] == {"files": (1, 2)}
    assert goes_on_alike((net, optimizer), (other, fresh)), "the optimizer goes on as it was"
