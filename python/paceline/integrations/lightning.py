"""Flash checkpoints for Lightning: every optimizer step in memory, some in storage.

    from paceline.integrations.lightning import FlashCheckpoint

    flash = FlashCheckpoint("runs/gpt", keep=3)
    trainer = Trainer(callbacks=[flash], plugins=[flash.io])
    trainer.fit(model, ckpt_path=flash.resume())

Saves Lightning's own checkpoint: weights, optimizers, schedulers, loops, callbacks. Supports
strategies in which every rank has the whole state: one device, and DDP. After a restore within an
epoch Lightning restarts the loader, unless it has `state_dict` and `load_state_dict`.
"""

import os
from typing import Any, Unpack, cast

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy

from paceline._base.wording import say
from paceline._data.loader import BaseLoader
from paceline.errors import CheckpointError
from paceline.integrations.flash import Flash, Options

_SCHEME = "paceline:"


class FlashCheckpoint(Flash, Callback):
    """Lightning's callback. `restored` says where the state came from.

    Args:
        directory: a directory that all hosts see, or `s3://BUCKET/PREFIX`.
        options: `keep` and `every`, as for `paceline.torch.Checkpointer`.

    Raises:
        CheckpointError: the directory cannot be used, or, at the fit, the strategy is unsupported.
    """

    def __init__(self, directory: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(directory, **options)
        self._path = _SCHEME + os.path.abspath(os.fspath(directory))
        self._is_resumed = False
        self._last = 0  # optimizer steps at the last save
        self.io = FlashIO(self)

    def resume(self) -> str | None:
        """The value for `fit(ckpt_path=…)`. None if there is no checkpoint."""
        state: dict[str, Any] = {"lightning": None}
        if self._checkpointer.restore(state) == 0:
            return None
        self.io.loaded = cast("dict[str, Any]", state["lightning"])
        self._is_resumed = True
        return self._path

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if not isinstance(trainer.strategy, (SingleDeviceStrategy, DDPStrategy)):
            raise CheckpointError(
                what=f"FlashCheckpoint does not support {type(trainer.strategy).__name__}",
                where="Trainer(strategy=…)",
                why="with this strategy not every rank has the whole state",
                fix='strategy="ddp", or a Checkpointer in a loop of your own',
            )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._is_resumed:  # set-up has drawn random numbers; the loader draws next
            self._checkpointer.restore_random()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last = trainer.global_step
        # Lightning leaves out an epoch that was read to its end. So does a restored loader.
        for loader in _loaders_of(trainer):
            if isinstance(loader, BaseLoader):
                loader.leave_read_epoch()

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._is_resumed and batch_idx > 0:  # the loader was restarted within an epoch
            self._checkpointer.restore_random()
            _tell_restarted(trainer, batch_idx)
        self._is_resumed = False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._last:
            return  # gradients are being accumulated
        self._save(trainer)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._checkpointer.close()

    def _save(self, trainer: Trainer) -> None:
        self._last = trainer.global_step
        connector = trainer._checkpoint_connector  # pyright: ignore[reportPrivateUsage]
        state = {"lightning": connector.dump_checkpoint(weights_only=False)}
        self._checkpointer.save(trainer.global_step - 1, state)


def _loaders_of(trainer: Trainer) -> list[object]:
    loaders = cast("object", trainer.train_dataloader)
    if isinstance(loaders, dict):
        return list(cast("dict[object, object]", loaders).values())
    return list(cast("list[object]", loaders)) if isinstance(loaders, (list, tuple)) else [loaders]


def _tell_restarted(trainer: Trainer, count: int) -> None:
    """Say what a plain loader costs: Lightning reads the epoch's data from its begin again."""
    is_plain = not all(hasattr(one, "state_dict") for one in _loaders_of(trainer))
    if trainer.global_rank == 0 and is_plain:
        say(
            f"Lightning begins this epoch's data again, after {count} batches of it: {count} are "
            "seen twice, and as many at its end not at all; a loader with state_dict, such as "
            "paceline.torch.ElasticLoader, goes on where it was"
        )


class FlashIO(TorchCheckpointIO):
    """Gives Lightning the state that `resume` restored. Other paths are read as usual."""

    def __init__(self, owner: FlashCheckpoint) -> None:
        super().__init__()
        self.loaded: dict[str, Any] = {}

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if not str(path).startswith(_SCHEME):
            return super().load_checkpoint(path, *args, **kwargs)
        loaded, self.loaded = self.loaded, {}
        if not loaded:
            raise CheckpointError(
                what="there is no restored state for Lightning to load",
                where=str(path),
                why="ckpt_path is not from resume(), or was used twice",
                fix="trainer.fit(model, ckpt_path=flash.resume())",
            )
        return loaded
