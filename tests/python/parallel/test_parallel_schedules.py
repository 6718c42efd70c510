"""The planner's orders of passes, against those of the installed torch."""

from typing import Any

import pytest
import torch
from torch.distributed import pipelining

from paceline import _native

SIZES = [(2, 2, 2), (2, 6, 3), (4, 4, 2), (4, 8, 3), (4, 10, 2), (3, 8, 2), (8, 16, 2)]


class Stage:
    """What a schedule of torch reads of a stage before it runs."""

    def __init__(self, index: int, stages: int, chunks: int) -> None:
        self.stage_index, self.num_stages = index, stages * chunks
        self.group_size, self.group_rank = stages, 0
        self.is_first, self.is_last = index == 0, index == self.num_stages - 1
        self.submod, self.device, self.has_backward = torch.nn.Identity(), "cpu", True


def orders_of_torch(
    stages: int, micro_batches: int, chunks: int, kind: str = "ScheduleInterleaved1F1B"
) -> list[list[str]]:
    local: Any = [Stage(chunk * stages, stages, chunks) for chunk in range(chunks)]
    made: Any = getattr(pipelining, kind)(local, micro_batches, loss_fn=torch.nn.MSELoss())
    letters = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}
    return [
        [f"{letters[one.computation_type.name]}{one.stage_index // stages}.{one.microbatch_index}"
         for one in made.pipeline_order[stage] if one is not None]
        for stage in range(stages)
    ]  # fmt: skip


@pytest.mark.parametrize(("stages", "micro_batches", "chunks"), SIZES)
def test_interleaved_orders_are_those_of_torch(
    stages: int, micro_batches: int, chunks: int
) -> None:
    ours = _native.schedule_orders("interleaved-1f1b", stages, micro_batches, chunks)
    assert ours == orders_of_torch(stages, micro_batches, chunks)


@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks"),
    [*SIZES, (2, 2, 1), (4, 4, 1), (4, 10, 1), (8, 24, 1)],
)
def test_orders_in_two_parts_are_those_of_torch(
    stages: int, micro_batches: int, chunks: int
) -> None:
    ours = _native.schedule_orders("zero-bubble", stages, micro_batches, chunks)
    theirs = orders_of_torch(stages, micro_batches, chunks, "ScheduleInterleavedZeroBubble")
    assert ours == theirs


def test_sizes_that_torch_refuses_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        orders_of_torch(4, 9, 2)
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        orders_of_torch(4, 9, 1, "ScheduleInterleavedZeroBubble")
    for name in ("interleaved-1f1b", "zero-bubble"):
        with pytest.raises(ValueError, match="no equal rounds"):
            _native.schedule_orders(name, 4, 9, 2)
