"""Flash checkpoints for Hugging Face's Trainer: every step in memory, some in storage.

    from paceline.integrations.transformers import FlashCheckpoint

    flash = FlashCheckpoint("runs/gpt", keep=3)
    trainer = Trainer(model=model, args=args, callbacks=[flash], …)
    trainer.train(resume_from_checkpoint=flash.resume(trainer))

Use `save_strategy="no"` unless you want the Trainer's own files too. Model, optimizer, scheduler,
the Trainer's state and random numbers are saved and restored.
"""

import dataclasses
import json
import os
import tempfile
from typing import Any, Unpack, cast

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from paceline.integrations.flash import Flash, Options

_STATE_NAME = "trainer_state.json"  # transformers.trainer.TRAINER_STATE_NAME


class FlashCheckpoint(Flash, TrainerCallback):
    """`directory`, `keep` and `every` are a Checkpointer's; `restored` says from where it came."""

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(directory, **options)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def resume(self, trainer: Trainer) -> str | None:
        """For `train(resume_from_checkpoint=…)`. None: there is no checkpoint.

        The Trainer finds its step in the folder; tensors are restored when the optimizer exists.
        """
        state: dict[str, Any] = {"trainer": None}
        if self._checkpointer.restore(state, strict=False) == 0:
            return None
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-resume-")
        with open(os.path.join(self._folder.name, _STATE_NAME), "w", encoding="utf-8") as file:
            json.dump(state["trainer"], file)

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
        self._checkpointer.restore(self._whole(state, kwargs))
        self._folder.cleanup()
        self._folder = None

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._checkpointer.save(state.global_step - 1, self._whole(state, kwargs))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._checkpointer.close()

    def _set_random(self, checkpoint: str | None) -> None:
        self._checkpointer.restore_random()

    def _whole(self, state: TrainerState, kwargs: dict[str, Any]) -> dict[str, Any]:
        optimizer, scheduler = kwargs["optimizer"], kwargs["lr_scheduler"]
        return {
            "model": kwargs["model"],
            # accelerate wraps them
            "optimizer": getattr(optimizer, "optimizer", optimizer),
            "scheduler": getattr(scheduler, "scheduler", scheduler),
            "trainer": cast("dict[str, Any]", dataclasses.asdict(state)),
        }


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass
