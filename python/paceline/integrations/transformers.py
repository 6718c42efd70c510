"""Flash checkpoints for Hugging Face's Trainer: every step in memory, some in storage.

    from paceline.integrations.transformers import FlashCheckpoint

    flash = FlashCheckpoint("runs/gpt", keep=3)
    trainer = Trainer(model=model, args=args, callbacks=[flash], …)
    trainer.train(resume_from_checkpoint=flash.resume(trainer))

Use `save_strategy="no"` unless you want the Trainer's own files too. Model, optimizer, scheduler,
gradient scaler, the states of the Trainer and of its callbacks, and random numbers are saved and
restored.

A step is saved when all of it is done, which is when the next one begins: evaluated, logged, saved
by the Trainer itself. So a kill before that redoes the step with its evaluation.
"""

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Unpack, cast

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from paceline.integrations.flash import Flash, Options

_STATE_NAME = "trainer_state.json"  # transformers.trainer.TRAINER_STATE_NAME
_SCALER = "paceline_scaler"  # beside the fields of a TrainerState, which has none for it
Json = dict[str, Any]


class FlashCheckpoint(Flash, TrainerCallback):
    """`directory`, `keep` and `every` are a Checkpointer's; `restored` says from where it came."""

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(directory, **options)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._trainer: Trainer | None = None
        self._scaler: Json | None = None  # its state, until there is one to take it
        self._ended: Json | None = None  # the Trainer's state, when nothing is left to train
        self._due: Callable[[], None] | None = None  # saves the step that has been made

    def resume(self, trainer: Trainer) -> str | None:
        """For `train(resume_from_checkpoint=…)`. None: there is no checkpoint.

        The Trainer finds its step in the folder; tensors are restored when the optimizer exists.
        """
        self._trainer = trainer
        loads_best = trainer._load_best_model  # pyright: ignore[reportPrivateUsage]

        def load_best() -> None:
            self._save_due()  # the weights of the last step, not of the best one
            loads_best()

        trainer._load_best_model = load_best  # pyright: ignore[reportPrivateUsage]
        state: dict[str, Any] = {"trainer": None}
        if self._checkpointer.restore(state, strict=False) == 0:
            return None
        saved = _of_rank_0(trainer, cast("Json", state["trainer"]))
        self._scaler = saved.pop(_SCALER, None)
        _set_states(trainer, saved["stateful_callbacks"])
        if _has_ended(saved) and _is_restart():
            # The Trainer makes a step before it asks whether to stop: there must be no epoch left.
            self._ended, saved = saved, {**saved, "global_step": sys.maxsize * saved["max_steps"]}
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-resume-")
        with open(os.path.join(self._folder.name, _STATE_NAME), "w", encoding="utf-8") as file:
            json.dump(saved, file)

        # It would look for files there. Weights come with the optimizer, in on_train_begin; random
        # numbers are set where the Trainer sets its own, behind the batches that it skips.
        trainer._load_from_checkpoint = _nothing  # pyright: ignore[reportPrivateUsage]
        trainer._load_rng_state = self._set_random  # pyright: ignore[reportPrivateUsage]
        return self._folder.name

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._folder is None:
            return  # nothing was resumed
        if self._ended is not None:
            state.global_step = self._ended["global_step"]
            cast("Any", self._trainer)._initial_global_step = state.global_step
        self._checkpointer.restore(self._whole(state, kwargs))
        if self._scaler and (scaler := self._present_scaler()) is not None:
            scaler.load_state_dict(self._scaler)
        self._folder.cleanup()
        self._folder = None

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._save_due()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._save_due()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        def save() -> None:
            self._checkpointer.save(state.global_step - 1, self._whole(state, kwargs))

        self._due = save

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._trainer is None and args.load_best_model_at_end:
            self._due = None  # these may be the weights of another step
        self._save_due()
        self._checkpointer.close()

    def _save_due(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            due()

    def _set_random(self, checkpoint: str | None) -> None:
        self._checkpointer.restore_random()

    def _whole(self, state: TrainerState, kwargs: Json) -> dict[str, Any]:
        optimizer, scheduler = kwargs["optimizer"], kwargs["lr_scheduler"]
        trainer = cast("Json", dataclasses.asdict(state))
        if self._trainer is not None:
            trainer["stateful_callbacks"] = {
                **trainer["stateful_callbacks"],
                **{name: [one.state() for one in group] if len(group) > 1 else group[0].state()
                   for name, group in _exportable(self._trainer).items()},
            }
        if (scaler := self._present_scaler()) is not None:
            trainer[_SCALER] = scaler.state_dict()
        return {
            "model": kwargs["model"],
            # accelerate wraps them
            "optimizer": getattr(optimizer, "optimizer", optimizer),
            "scheduler": getattr(scheduler, "scheduler", scheduler),
            "trainer": trainer,
        }

    def _present_scaler(self) -> Any:
        """That of float16's gradients; None where there is none."""
        return None if self._trainer is None else getattr(self._trainer.accelerator, "scaler", None)


def _exportable(trainer: Trainer) -> dict[str, list[ExportableState]]:
    """What of the Trainer's callbacks has a state, and its control, by the names of its file."""
    found: dict[str, list[ExportableState]] = {}
    for one in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(one, ExportableState):
            found.setdefault(type(one).__name__, []).append(one)
    return found


def _set_states(trainer: Trainer, states: Json) -> None:
    """Gives the callbacks back what they had, in the order in which they stand.

    The Trainer does so itself only where `restore_callback_states_from_checkpoint` is set.
    """
    for name, group in _exportable(trainer).items():
        saved = states.get(name, [])
        for one, its in zip(group, saved if isinstance(saved, list) else [saved], strict=False):
            for attribute, value in its.get("attributes", {}).items():
                setattr(one, attribute, value)


def _of_rank_0(trainer: Trainer, own: Json) -> Json:
    """Rank 0's state on every rank, as the Trainer reads one file on all: callbacks may count on
    one rank alone, and a rank that stops earlier than the others leaves them waiting."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return own
    device, is_first = trainer.args.device, trainer.args.process_index == 0
    text = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8).to(device)
    size = torch.tensor([text.numel()], device=device)
    torch.distributed.broadcast(size, 0)
    told = text if is_first else torch.empty(int(size), dtype=torch.uint8, device=device)
    torch.distributed.broadcast(told, 0)
    return cast("Json", json.loads(bytes(told.cpu().tolist())))


def _has_ended(saved: Json) -> bool:
    """Whether the step was the last one: the number of steps was reached, or a callback said so."""
    control = saved["stateful_callbacks"].get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop", False))


def _is_restart() -> bool:
    """Of the same job. A new one may have more epochs, or more patience."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass
