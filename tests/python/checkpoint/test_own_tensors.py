"""Tensors of one name that differ between ranks: only a world of the same size can take them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline._native import Manifest
from paceline._rank import progress
from paceline._restore.images import Images
from paceline._restore.own_tensors import differing
from paceline._state.save_plan import SavePlan
from paceline._state.torch_state import is_told_replica
from paceline.errors import CheckpointError
from paceline.integrations import storing
from paceline.integrations.convert import main
from paceline.torch import Torch, load

BINARY = Path(sys.executable).parent / "paceline"
Made = tuple[torch.nn.Module, torch.optim.Optimizer]


def stage(rank: int, *, alike: bool) -> Made:
    """A module with a buffer; its parameters are the same on all ranks, or are not."""
    torch.manual_seed(0 if alike else rank)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1)
    net(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    torch.manual_seed(100 + rank)
    net(torch.randn(4, 3))  # each rank sees other samples
    return net, optimizer


def wider_stage(rank: int) -> Made:
    """A module whose parameters have another shape on each rank, and of one even another form."""
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2 + rank), torch.nn.Linear(2 + rank, 2))
    net.register_parameter("gain", torch.nn.Parameter(torch.ones([2] * (1 + rank))))
    optimizer = torch.optim.AdamW(net.parameters())
    (net(torch.randn(4, 3)).sum() + net.gain.sum()).backward()
    optimizer.step()
    return net, optimizer


def save(directory: Path, ranks: int, *, alike: bool) -> list[Made]:
    return save_all(directory, [stage(rank, alike=alike) for rank in range(ranks)])


def save_all(directory: Path, made: list[Made]) -> list[Made]:
    ranks = len(made)
    name = storing.unused_name(str(directory), 3, ranks)
    directory.mkdir()
    for rank, (net, optimizer) in enumerate(made):
        plan = SavePlan()
        framework = Torch()
        state: dict[str, Any] = {"stage": net, "optimizer": optimizer}
        for key, value in state.items():
            framework.plan_entry(plan, key, value, state)
        entries: dict[str, Any] = {"optimizer": plan.values["optimizer"]()}
        shard = storing.Shard(name, rank, plan.leaves, entries, plan.constants)
        storing.write(name.place(str(directory)), shard)
    name.place(str(directory)).commit(ranks)
    return made


def folder_of(directory: Path) -> str:
    (folder,) = directory.glob("step-*")
    return str(folder)


def seat(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    """This process is that rank of a world of that size."""
    monkeypatch.setattr(progress, "rank", lambda: rank)
    monkeypatch.setattr(progress, "world_size", lambda: world)


BUFFERS = {"stage.1.running_mean", "stage.1.running_var"}
OWN = {"stage.0.weight", "stage.0.bias"}
MOMENTS = {f"optimizer.state.{name}.momentum_buffer" for name in OWN}


def test_parameters_of_the_ranks_own_are_refused_in_another_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = save(tmp_path / "c", 2, alike=False)
    found = set(Manifest.read(folder_of(tmp_path / "c")).differing)
    assert found >= BUFFERS | OWN
    for world in (1, 3):
        seat(monkeypatch, 0, world)
        net, optimizer = stage(7, alike=False)
        before = {key: value.clone() for key, value in net.state_dict().items()}
        with pytest.raises(CheckpointError) as raised:
            load(tmp_path / "c", {"stage": net, "optimizer": optimizer})
        error = raised.value
        assert f"saved by 2 ranks, cannot be restored by {world}" in error.what
        for name in OWN | (MOMENTS & found):
            assert name in error.why
        assert "running_mean" not in error.why and "restore with 2 ranks" in error.fix
        assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
        loaded = load(tmp_path / "c", {"stage": net, "optimizer": optimizer}, strict=False)
        assert any("stage.0.weight differs between the 2 ranks" in one for one in loaded.left_out)
        assert torch.equal(before["0.weight"], net.state_dict()["0.weight"])
    for rank in range(2):
        seat(monkeypatch, rank, 2)
        net, optimizer = stage(7, alike=False)
        load(tmp_path / "c", {"stage": net, "optimizer": optimizer})
        kept = made[rank][0].state_dict()
        assert all(torch.equal(kept[key], value) for key, value in net.state_dict().items())


def test_parameters_of_the_ranks_own_may_have_other_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = save_all(tmp_path / "c", [wider_stage(rank) for rank in range(2)])
    differ = set(Manifest.read(folder_of(tmp_path / "c")).differing)
    names = {"stage.0.weight", "stage.0.bias", "stage.1.weight", "stage.gain"}
    assert differ >= names | {f"optimizer.state.{name}.exp_avg" for name in names}
    words = [BINARY, "ckpt", "verify", tmp_path / "c"]
    verify = subprocess.run(words, capture_output=True, check=False)
    assert verify.returncode == 0, verify.stdout
    for rank in range(2):
        seat(monkeypatch, rank, 2)
        net, optimizer = wider_stage(rank)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.zero_()
        load(tmp_path / "c", {"stage": net, "optimizer": optimizer})
        kept = made[rank][0].state_dict()
        assert all(torch.equal(kept[key], value) for key, value in net.state_dict().items())
        moments = zip(made[rank][1].state.values(), optimizer.state.values(), strict=True)
        assert all(torch.equal(a["exp_avg"], b["exp_avg"]) for a, b in moments)
    for world in (1, 3):
        seat(monkeypatch, 0, world)
        net, optimizer = wider_stage(0)
        with pytest.raises(CheckpointError, match=f"cannot be restored by {world}") as raised:
            load(tmp_path / "c", {"stage": net, "optimizer": optimizer})
        assert "stage.0.weight" in raised.value.why


def test_buffers_that_differ_are_rank_0s_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = save(tmp_path / "c", 3, alike=True)
    assert set(Manifest.read(folder_of(tmp_path / "c")).differing) == BUFFERS
    for rank in range(2):
        seat(monkeypatch, rank, 2)
        net, optimizer = stage(7, alike=False)
        loaded = load(tmp_path / "c", {"stage": net, "optimizer": optimizer})
        kept = made[0][0].state_dict()
        assert all(torch.equal(kept[key], value) for key, value in net.state_dict().items())
        assert loaded.told == (
            "; rank 0's of what differs between ranks: stage.1.running_mean, stage.1.running_var"
        )


def test_a_declared_replica_is_no_ranks_own(tmp_path: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for placement, is_own in ((Replicate(), False), (Shard(0), True)):
            whole = distribute_tensor(torch.ones(4, 2), mesh, [placement])
            parameter = torch.nn.Parameter(whole)
            assert is_told_replica(parameter) is not is_own
            assert Torch().leaf("x", parameter).is_parameter is is_own
    finally:
        torch.distributed.destroy_process_group()
    assert not is_told_replica(torch.nn.Parameter(torch.ones(2)))


def test_images_in_memory_are_compared_by_their_bytes(tmp_path: Path) -> None:
    save(tmp_path / "own", 3, alike=False)
    save(tmp_path / "alike", 3, alike=True)
    for directory in ("own", "alike"):
        images = Images.stored(folder_of(tmp_path / directory), 0)
        images.open_others()
        assert differing(images.opened[:1]) == set()
        assert differing(images.opened) == images.differing
        assert images.differing == BUFFERS if directory == "alike" else images.differing > OWN


def test_an_export_names_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "c", 2, alike=False)
    words = ["ckpt", "export", str(tmp_path / "c"), str(tmp_path / "hf"), "--to", "hf"]
    words += ["--entry", "stage"]
    done = subprocess.run([BINARY, *words], check=True, capture_output=True, text=True)
    text = done.stdout + done.stderr
    assert "stage.0.weight differs between ranks: rank 0's was taken" in text
    words[3] = str(tmp_path / "hf2")
    done = subprocess.run([BINARY, *words, "--json"], check=True, capture_output=True, text=True)
    assert set(json.loads(done.stdout)["differing"]) >= OWN | BUFFERS
    assert main(["export", str(tmp_path / "c"), str(tmp_path / "dcp")]) == 0
    assert "stage.0.weight differs between ranks: rank 0's" in capsys.readouterr().err
