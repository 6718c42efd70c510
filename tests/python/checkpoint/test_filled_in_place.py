"""Tensors and arrays of the caller's state keep their identity; the rest comes back new."""

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy
import paceline.numpy
import pytest
import torch
from paceline.torch import Checkpointer, load
from small_training import make, same, train

pytestmark = pytest.mark.usefixtures("own_keeper")

State = dict[str, Any]


def saved(state: State, place: Path) -> None:
    with Checkpointer(place) as ckpt:
        ckpt.save(0, state)


def test_tensors_are_filled_where_they_are(tmp_path: Path) -> None:
    def state(value: float) -> State:
        return {
            "loose": torch.full((3,), value),
            "ema": {"a": torch.full((2, 2), value), "list": [torch.full((2,), value).t()]},
            "parameter": torch.nn.Parameter(torch.full((2,), value)),
            "turned": {"t": torch.full((2, 3), value).t(), "c": torch.full((2,), value) * 1j},
            "array": numpy.full(3, value),
            "arrays": (numpy.full((2, 3), value).T, {"b": numpy.full(2, value, ">f4")}),
        }

    saved(state(7.0), tmp_path / "c")
    fresh = state(1.0)
    before: State = copy.copy(fresh)
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore(fresh) == 1
    assert fresh["loose"] is before["loose"] and fresh["parameter"] is before["parameter"]
    assert fresh["array"] is before["array"]
    ema, turned, arrays = before["ema"], before["turned"], before["arrays"]
    assert fresh["ema"] is not ema, "a container is a new one"
    assert fresh["ema"]["a"] is ema["a"] and fresh["ema"]["list"][0] is ema["list"][0]
    assert fresh["turned"]["t"] is turned["t"] and fresh["turned"]["c"] is turned["c"]
    assert fresh["arrays"][0] is arrays[0] and fresh["arrays"][1]["b"] is arrays[1]["b"]
    for tensor in (before["loose"], before["parameter"], ema["a"], ema["list"][0], turned["t"]):
        assert tensor.eq(7).all()
    assert turned["c"].eq(7j).all()
    for array in (before["array"], arrays[0], arrays[1]["b"]):
        assert (array == 7).all()
    assert arrays[1]["b"].dtype == ">f4"
    assert sorted(ckpt.replaced) == [
        "arrays is a new tuple", "ema is a new dict", "turned is a new dict"
    ]  # fmt: skip
    assert ";" not in ckpt.restored


def test_what_does_not_fit_comes_back_new_and_is_told(tmp_path: Path) -> None:
    saved(
        {"x": {"shape": torch.ones(3), "type": torch.ones(2), "kind": torch.ones(2) * 1j,
               "wide": torch.ones(2, 3), "same": torch.ones(1), "fixed": numpy.ones(2)},
         "list": [torch.ones(1), torch.ones(1)], "epoch": 7, "best": 0.5, "name": "run"},
        tmp_path / "c",
    )  # fmt: skip
    fixed = numpy.zeros(2)
    fixed.flags.writeable = False
    there = {"shape": torch.zeros(2), "type": torch.zeros(2, dtype=torch.float64),
             "kind": torch.zeros(2, 2), "wide": torch.zeros(3).expand(2, 3),
             "same": torch.zeros(1), "fixed": fixed}  # fmt: skip
    fresh: State = {"x": there, "list": [torch.zeros(1)], "epoch": 0, "best": 0.5, "name": None}
    loaded = load(tmp_path / "c", fresh)
    assert there["shape"].tolist() == [0, 0] and fixed.tolist() == [0, 0]
    assert fresh["x"]["same"] is there["same"]
    assert fresh["x"]["shape"].tolist() == [1, 1, 1] and fresh["x"]["type"].dtype == torch.float32
    assert fresh["x"]["kind"].tolist() == [1j, 1j] and fresh["x"]["fixed"].tolist() == [1, 1]
    assert fresh["x"]["wide"].tolist() == [[1] * 3] * 2
    assert loaded.left_out == []
    assert sorted(loaded.replaced) == [
        "epoch is a new int",
        "list is a new list",
        "x is a new dict",
        "x.fixed is a new tensor: its elements cannot be written one by one",
        "x.kind is a new tensor: it was saved as complex64 [2, 2], not F32 [2, 2]",
        "x.shape is a new tensor: it was saved as F32 [3], not F32 [2]",
        "x.type is a new tensor: it was saved as F32 [2], not F64 [2]",
        "x.wide is a new tensor: its elements cannot be written one by one",
    ]


def test_the_new_command_line_is_not_undone(tmp_path: Path) -> None:
    saved({"args": vars(argparse.Namespace(rate=0.1, steps=5)), "x": torch.ones(1)}, tmp_path / "c")
    args = argparse.Namespace(rate=0.5, steps=9)
    state: State = {"args": vars(args), "x": torch.zeros(1)}
    Checkpointer(tmp_path / "c").restore(state)
    assert args.rate == 0.5 and args.steps == 9
    assert state["args"] == {"rate": 0.1, "steps": 5}


@pytest.mark.parametrize("order", [("best", "model"), ("model", "best")])
def test_best_weights_that_are_the_models_own_do_not_overwrite_it(
    order: tuple[str, str], tmp_path: Path
) -> None:
    """`best = model.state_dict()` shares memory with the model, until something better is kept."""
    torch.manual_seed(1)
    net, optimizer = make()
    best = {key: value.clone() for key, value in net.state_dict().items()}
    train(net, optimizer, 3)
    saved({"model": net, "best": best}, tmp_path / "c")
    other, _ = make()
    parts: State = {"model": other, "best": other.state_dict()}
    fresh = {name: parts[name] for name in order}
    ckpt = Checkpointer(tmp_path / "c")
    ckpt.restore(fresh)
    assert same(net, other) and same(best, fresh["best"])
    assert any("shared memory" in told for told in ckpt.replaced)


class Own:
    """Loads its state by itself, into its own tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def state_dict(self) -> State:
        return {"t": self.tensor}

    def load_state_dict(self, state: State) -> None:
        self.tensor.copy_(state["t"])


def test_tensors_that_share_memory_each_come_back(tmp_path: Path) -> None:
    def state(values: list[float]) -> State:
        tensors = [torch.full((4,), value) for value in values]
        return {"a": tensors[0], "own": Own(tensors[1]), "b": tensors[2], "c": tensors[3]}

    saved(state([1.0, 2.0, 3.0, 4.0]), tmp_path / "c")
    flat = torch.zeros(8)
    fresh: State = {"a": flat[:4], "own": Own(flat[:4]), "b": flat[2:6], "c": flat[4:]}
    ckpt = Checkpointer(tmp_path / "c")
    ckpt.restore(fresh)
    assert [fresh[key].unique().tolist() for key in "abc"] == [[1], [3], [4]]
    assert fresh["own"].tensor.unique().tolist() == [2] and flat.tolist() == [2] * 4 + [4] * 4
    assert sum("shared memory" in told for told in ckpt.replaced) == 2


def test_a_tensor_learning_rate_and_moments_stay_the_same_objects(tmp_path: Path) -> None:
    def training(rate: float) -> State:
        net, _ = make()
        optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(rate))
        train(net, optimizer, 1)
        return {"model": net, "optimizer": optimizer}

    saved(training(0.5), tmp_path / "c")
    fresh = training(0.1)
    optimizer = fresh["optimizer"]
    rate = optimizer.param_groups[0]["lr"]
    moments = [inner["exp_avg"] for inner in optimizer.state.values()]
    ckpt = Checkpointer(tmp_path / "c")
    ckpt.restore(fresh)
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.5
    now = [inner["exp_avg"] for inner in optimizer.state.values()]
    assert all(a is b for a, b in zip(moments, now, strict=True))
    assert ckpt.replaced == []


def test_arrays_alone_are_filled_where_they_are(tmp_path: Path) -> None:
    with paceline.numpy.Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"w": numpy.ones(3), "deep": [numpy.ones((2, 2)).T]})
    weights, deep = numpy.zeros(3), numpy.zeros((2, 2)).T
    state: State = {"w": weights, "deep": [deep]}
    ckpt = paceline.numpy.Checkpointer(tmp_path / "c")
    assert ckpt.restore(state) == 1
    assert state["w"] is weights and state["deep"][0] is deep
    assert weights.tolist() == [1] * 3 and deep.tolist() == [[1, 1]] * 2
    assert ckpt.replaced == ["deep is a new list"]
