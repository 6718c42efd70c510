"""Records what an unmodified script does: reads data, computes, steps its optimizer.

A phase ends where the next one shows itself. After an optimizer's step nothing is known until then:
the script may compute metrics, sample or upload.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from paceline import flight
from paceline.flight import Flight
from paceline.import_hook import when_imported


def watch_phases(ring: Flight) -> None:
    """Record the phases of this process from now on, once torch is there."""
    turn = ring.writer.turn

    def watch_data(module: Any) -> None:
        iterator = module._BaseDataLoaderIter
        iterator.__next__ = _around(iterator.__next__, turn, flight.DATA, flight.FORWARD)

    def watch_backward(module: Any) -> None:
        module.backward = _around(module.backward, turn, flight.BACKWARD, flight.FORWARD)

    def watch_optimizer(module: Any) -> None:
        def before(_optimizer: object, _args: object, _kwargs: object) -> None:
            turn(flight.OPTIMIZER)

        def after(_optimizer: object, _args: object, _kwargs: object) -> None:
            turn(flight.UNKNOWN)

        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def watch_save(module: Any) -> None:
        module.save = _around(module.save, turn, flight.CHECKPOINT, flight.UNKNOWN)
        torch: Any = sys.modules.get("torch")
        if hasattr(torch, "save"):  # it was imported before: by the starter
            torch.save = module.save

    when_imported("torch.utils.data.dataloader", watch_data)
    when_imported("torch.autograd", watch_backward)
    when_imported("torch.optim.optimizer", watch_optimizer)
    when_imported("torch.serialization", watch_save)


def _around(
    call: Callable[..., Any], turn: Callable[[int], None], within: int, behind: int
) -> Callable[..., Any]:
    @functools.wraps(call)
    def calls(*args: Any, **kwargs: Any) -> Any:
        turn(within)
        try:
            return call(*args, **kwargs)
        finally:
            turn(behind)

    return calls
