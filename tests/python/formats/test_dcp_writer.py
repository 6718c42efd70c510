"""dcp.save into paceline's files, from one process and from a world of gloo."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from dcp_alone import ALONE
from paceline.integrations.dcp import PacelineReader, PacelineWriter
from paceline.torch import load
from small_training import make, same
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from warm_process import Warm, warm_fixture

warm = warm_fixture("torch.distributed.tensor", "torch.distributed.checkpoint",
                    "paceline.integrations.dcp")
BINARY = Path(sys.executable).parent / "paceline"
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    net, optimizer = make()
    net(torch.randn(6, 5)).sum().backward()
    optimizer.step()
    return net, optimizer


def state_of(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, opt = get_state_dict(net, optimizer)
    return {"model": model, "optimizer": opt, "epoch": 3, "log": {"loss": [0.5, 0.25]}}


def test_save_and_load_by_dcp(tmp_path: Path) -> None:
    state = state_of(*trained())
    dcp.save(state, storage_writer=PacelineWriter(tmp_path / "c", step=7), **ALONE)
    assert (tmp_path / "c" / "step-7-g0" / "MANIFEST.json").exists()
    done = subprocess.run([BINARY, "ckpt", "verify", tmp_path / "c"], check=False)
    assert done.returncode == 0
    net, optimizer = make()
    net(torch.zeros(6, 5)).sum().backward()
    optimizer.step()
    fresh = state_of(net, optimizer)
    fresh |= {"epoch": 0, "log": {"loss": []}}
    assert not same(fresh, state)
    dcp.load(fresh, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    assert same(fresh, state)


def test_an_asynchronous_save_keeps_what_was_there_when_it_was_asked_for(tmp_path: Path) -> None:
    state = {"t": torch.arange(5.0), "n": {"step": 3}}
    writer = PacelineWriter(tmp_path / "c", step=7)
    saving: Any = dcp.async_save(state, storage_writer=writer, **ALONE)
    state["t"].zero_()
    saving.result()
    found = {"t": torch.ones(5), "n": {"step": 0}}
    dcp.load(found, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    assert found["t"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] and found["n"] == {"step": 3}


def test_weights_that_dcp_saved_go_into_a_model(tmp_path: Path) -> None:
    net, optimizer = trained()
    dcp.save(state_of(net, optimizer), storage_writer=PacelineWriter(tmp_path / "c", step=7),
             **ALONE)
    other, _ = make()
    loaded = load(tmp_path / "c", {"model": other}, strict=False)
    assert same(other.state_dict(), net.state_dict()) and loaded.step == 7


def test_a_step_is_saved_again_and_nothing_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "c"
    for value in (1.0, 2.0):
        state = {"t": torch.full((3,), value)}
        dcp.save(state, storage_writer=PacelineWriter(path, step=7), **ALONE)
    dcp.save({"t": torch.zeros(3)}, storage_writer=PacelineWriter(path, step=3), **ALONE)
    assert {one.name for one in path.glob("step-*")} == {"step-7-g0", "step-7-g1", "step-3-g0"}
    found = {"t": torch.ones(3)}
    dcp.load(found, storage_reader=PacelineReader(path), **ALONE)
    assert found["t"].tolist() == [0.0] * 3, "what was saved last, though its step is lower"
    dcp.load(found, storage_reader=PacelineReader(path / "step-7-g1"), **ALONE)
    assert found["t"].tolist() == [2.0] * 3


def test_what_cannot_be_saved_is_named_and_leaves_no_checkpoint(tmp_path: Path) -> None:
    writer = PacelineWriter(tmp_path / "c", step=1)
    with pytest.raises(CheckpointException, match="file"):
        dcp.save({"t": torch.ones(2), "file": sys.stdout}, storage_writer=writer, **ALONE)
    with pytest.raises(CheckpointException, match="there is no checkpoint"):
        dcp.load({"t": torch.ones(2)}, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    dcp.save({"t": torch.ones(2)}, storage_writer=writer, **ALONE)
    assert (tmp_path / "c" / "step-1-g0" / "MANIFEST.json").exists()


RANKS = """
import sys, torch, torch.distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard
from paceline.integrations.dcp import PacelineReader, PacelineWriter
dist.init_process_group('gloo')
mesh = init_device_mesh('cpu', (dist.get_world_size(),))
whole = torch.arange(70.0).reshape(10, 7)
axis = int(sys.argv[3])
zeros = sys.argv[1] == 'load'
t = distribute_tensor(torch.zeros(10, 7) if zeros else whole, mesh, [Shard(axis)])
state = {'t': t, 'n': {'step': 0 if zeros else 5}, 'same': torch.ones(3) * (not zeros)}
if sys.argv[1] == 'save':
    dcp.save(state, storage_writer=PacelineWriter(sys.argv[2], step=5))
else:
    dcp.load(state, storage_reader=PacelineReader(sys.argv[2]))
    mine = distribute_tensor(whole, mesh, [Shard(axis)]).to_local()
    assert torch.equal(state['t'].to_local(), mine)
    assert state['n'] == {'step': 5} and state['same'].tolist() == [1.0] * 3
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("save", "load_by"), [(2, 2), (4, 2), (2, 3)])
def test_ranks_save_and_others_load(warm: Warm, tmp_path: Path, save: int, load_by: int) -> None:
    def run(ranks: int, *args: str) -> None:
        ended = warm.run_ranks(ranks, RANKS, *args)
        assert [one.returncode for one in ended] == [0] * ranks, [one.stderr for one in ended]

    run(save, "save", str(tmp_path / "c"), "0")
    done = subprocess.run([BINARY, "ckpt", "verify", tmp_path / "c"], check=False)
    assert done.returncode == 0
    run(load_by, "load", str(tmp_path / "c"), "1")
