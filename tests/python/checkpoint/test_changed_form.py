"""A tensor or array whose shape, type or layout changes in place, between two saves.

The object and its address stay the same, and the next save has to notice.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from paceline.torch import Checkpointer, load
from test_kinds_of_state import differences
from torch import nn

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]

State = dict[str, Any]


TURNS: dict[str, Callable[[Any], object]] = {
    "turned": lambda x: x.t_(),
    "turned by its data": lambda x: setattr(x, "data", x.data.t()),
    "cut": lambda x: x.resize_(4, 2),
    "reshaped": lambda x: x.resize_(2, 8),
    "strided": lambda x: x.as_strided_((4, 4), (1, 4)),
    "read as another type": lambda x: setattr(x, "data", x.data.view(torch.int32)),
}
ARRAY_TURNS: dict[str, Callable[[Any], object]] = {
    "reshaped": lambda x: setattr(x, "shape", (2, 8)),
    "read as another type": lambda x: setattr(x, "dtype", numpy.int64),
    "strided": lambda x: setattr(x, "strides", (8, 32)),
}


@pytest.mark.parametrize("is_loose", [True, False])
@pytest.mark.parametrize("way", TURNS)
def test_a_tensor_that_changes_its_form_in_place_is_saved_as_it_is(
    way: str, is_loose: bool, tmp_path: Path
) -> None:
    module = nn.Module()
    module.register_buffer("x", torch.rand(4, 4))
    live: Any = module.get_buffer("x")
    state: State = {"value": live if is_loose else module}
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ckpt.save(0, state)
        TURNS[way](live)
        ckpt.save(1, state)
    fresh: State = {"value": None}
    if not is_loose:
        fresh["value"] = nn.Module()
        fresh["value"].register_buffer("x", torch.zeros_like(live))
    load(tmp_path / "c", fresh)
    back = fresh["value"] if is_loose else fresh["value"].get_buffer("x")
    assert differences(live, back) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ARRAY_TURNS)
def test_an_array_that_changes_its_form_in_place_is_saved_as_it_is(
    way: str, tmp_path: Path
) -> None:
    live = numpy.random.rand(4, 4)
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ckpt.save(0, {"x": live})
        ARRAY_TURNS[way](live)
        ckpt.save(1, {"x": live})
    fresh: State = {"x": None}
    load(tmp_path / "c", fresh)
    assert differences(numpy.ascontiguousarray(live), numpy.ascontiguousarray(fresh["x"])) == []
