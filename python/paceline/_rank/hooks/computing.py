"""Records the phases of an unmodified script: it reads data, computes, steps its optimizer.

A phase lasts until the next one is seen. After an optimizer's step the phase is unknown until then:
the script may compute metrics, sample or upload.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from paceline._rank import flight, phases
from paceline._rank.flight import Flight
from paceline._rank.hooks.forward import Model, watch_forward
from paceline._rank.hooks.on_import import when_imported
from paceline._rank.phases import Phases


def watch_phases(ring: Flight, look: Callable[[], int]) -> None:
    """Record this process's phases, as soon as torch is imported.

    `look` records which collectives are complete. Needed at a change of phase: while a C function
    holds the GIL, the recording thread cannot run, and the collectives would look incomplete.
    """

    def turn(phase: int) -> None:
        look()
        ring.writer.turn(phase)

    own = phases.begin(Phases(turn))
    model = Model(own)
    _watch_data(own, model)
    watch_forward(model, own)
    _watch_backward(own)
    _watch_optimizer(own, model)
    _watch_saves(own)


def _watch_data(own: Phases, model: Model) -> None:
    """Reading data counts as evaluation while the model is in eval mode."""

    def reads(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def calls(*args: Any, **kwargs: Any) -> Any:
            is_evaluated = model.is_evaluated()
            own.turn(flight.EVALUATION if is_evaluated else flight.DATA)
            behind = flight.UNKNOWN  # the phase after the last batch, and after a failed read
            try:
                batch = call(*args, **kwargs)
                behind = flight.FORWARD
                return batch
            finally:
                if not is_evaluated:
                    own.turn(behind)

        return calls

    def watch(module: Any) -> None:
        iterator = module._BaseDataLoaderIter
        iterator.__next__ = reads(iterator.__next__)

    when_imported("torch.utils.data.dataloader", watch)


def _watch_backward(own: Phases) -> None:
    def watch(module: Any) -> None:
        module.backward = _around(module.backward, own, flight.BACKWARD, flight.FORWARD)

    when_imported("torch.autograd", watch)


def _watch_optimizer(own: Phases, model: Model) -> None:
    def before(_optimizer: object, _args: object, _kwargs: object) -> None:
        own.turn(flight.OPTIMIZER)

    def after(optimizer: object, _args: object, _kwargs: object) -> None:
        model.stepped(optimizer)
        own.turn(flight.UNKNOWN)

    def watch(module: Any) -> None:
        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    when_imported("torch.optim.optimizer", watch)


def _watch_saves(own: Phases) -> None:
    def wrap(place: str, names: tuple[str, ...], exported: str) -> None:
        def watch(module: Any) -> None:
            package: Any = sys.modules.get(exported)
            for name in names:
                original = getattr(module, name, None)
                if original is None:
                    continue
                saves = _around(original, own, flight.CHECKPOINT, flight.UNKNOWN)
                setattr(module, name, saves)
                if hasattr(package, name):  # already imported, by the starter
                    setattr(package, name, saves)

        when_imported(place, watch)

    wrap("torch.serialization", ("save",), "torch")
    wrap(
        "torch.distributed.checkpoint.state_dict_saver",
        ("save", "async_save", "save_state_dict"),
        "torch.distributed.checkpoint",
    )


def _around(
    call: Callable[..., Any], own: Phases, within: int, behind: int
) -> Callable[..., Any]:
    @functools.wraps(call)
    def calls(*args: Any, **kwargs: Any) -> Any:
        if own.now == within:  # a nested call
            return call(*args, **kwargs)
        own.turn(within)
        try:
            return call(*args, **kwargs)
        finally:
            own.turn(behind)

    return calls
