"""Flash checkpoints for Hugging Face's Trainer: every step in memory, some in storage.

    from paceline.integrations.transformers import FlashCheckpoint

    flash = FlashCheckpoint("runs/gpt", keep=3)
    trainer = Trainer(model=model, args=args, callbacks=[flash], …)
    trainer.train(resume_from_checkpoint=flash.resume(trainer))

Use `save_strategy="no"` unless you also want the Trainer's own files. Saved and restored are the
model, optimizer, scheduler, gradient scaler, the states of the Trainer and its callbacks, and
random numbers.

A step is saved when the next one begins: then it is evaluated, logged and saved by the Trainer. If
the process is killed before, the step is done again with its evaluation.
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
_SCALER = "paceline_scaler"  # stored beside the fields of TrainerState, which has none for it
Json = dict[str, Any]


class FlashCheckpoint(Flash, TrainerCallback):
    """The Trainer's callback. `restored` says where the state came from.

    Args:
        directory: a directory that all hosts see, or `s3://BUCKET/PREFIX`.
        options: `keep` and `every`, as for `paceline.torch.Checkpointer`.

    Raises:
        CheckpointError: the directory cannot be used.
    """

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(directory, **options)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._trainer: Trainer | None = None
        self._scaler: Json | None = None  # the scaler's state, until the scaler exists
        self._ended: Json | None = None  # the Trainer's state, if training had ended
        self._due: Callable[[], None] | None = None  # saves the step that is done

    def resume(self, trainer: Trainer) -> str | None:
        """The value for `train(resume_from_checkpoint=…)`. None if there is no checkpoint.

        The Trainer reads its step from that folder. Tensors are restored when the optimizer exists.
        """
        self._trainer = trainer
        loads_best = trainer._load_best_model  # pyright: ignore[reportPrivateUsage]

        def load_best() -> None:
            self._save_due()  # now, with the last step's weights and not the best ones
            loads_best()

        trainer._load_best_model = load_best  # pyright: ignore[reportPrivateUsage]
        state: dict[str, Any] = {"trainer": None}
        if self._checkpointer.restore(state, strict=False) == 0:
            return None
        saved = _of_rank_0(trainer, cast("Json", state["trainer"]))
        self._scaler = saved.pop(_SCALER, None)
        _set_states(trainer, saved["stateful_callbacks"])
        if _has_ended(saved) and _is_restart():
            # The Trainer makes a step before it checks whether to stop, so no epoch may be left.
            self._ended, saved = saved, {**saved, "global_step": sys.maxsize * saved["max_steps"]}
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-resume-")
        with open(os.path.join(self._folder.name, _STATE_NAME), "w", encoding="utf-8") as file:
            json.dump(saved, file)

        # The Trainer would look for files in the folder. Weights are restored in on_train_begin,
        # with the optimizer. Random numbers are set where the Trainer sets its own, after it
        # skipped batches.
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
            self._due = None  # the weights may be those of another step
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
            # accelerate wraps both.
            "optimizer": getattr(optimizer, "optimizer", optimizer),
            "scheduler": getattr(scheduler, "scheduler", scheduler),
            "trainer": trainer,
        }

    def _present_scaler(self) -> Any:
        """The gradient scaler of float16; None if there is none."""
        return None if self._trainer is None else getattr(self._trainer.accelerator, "scaler", None)


def _exportable(trainer: Trainer) -> dict[str, list[ExportableState]]:
    """The callbacks with a state, and the control, by their names in the Trainer's file."""
    found: dict[str, list[ExportableState]] = {}
    for one in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(one, ExportableState):
            found.setdefault(type(one).__name__, []).append(one)
    return found


def _set_states(trainer: Trainer, states: Json) -> None:
    """Restore the callbacks' attributes, in the callbacks' order.

    The Trainer does so itself only with `restore_callback_states_from_checkpoint`.
    """
    for name, group in _exportable(trainer).items():
        saved = states.get(name, [])
        for one, its in zip(group, saved if isinstance(saved, list) else [saved], strict=False):
            for attribute, value in its.get("attributes", {}).items():
                setattr(one, attribute, value)


def _of_rank_0(trainer: Trainer, own: Json) -> Json:
    """Rank 0's state on every rank, as when all ranks read the Trainer's one file. Callbacks may
    count on one rank alone, and a rank that stops earlier would leave the others waiting.
    """
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
    """Whether training had ended: all steps were done, or a callback stopped it."""
    control = saved["stateful_callbacks"].get("TrainerControl", {})
    return bool(control.get("args", {}).get("should_training_stop", False))


def _is_restart() -> bool:
    """Whether the same job restarted. A new job may have more epochs, or more patience."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass
