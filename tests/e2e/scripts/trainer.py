"""An unmodified script of a Trainer that saves every 5 steps and resumes by itself.

    trainer.py --dir DIR --steps N --kill-after K --framework transformers|lightning

Its optimizer is SGD, which does not count its steps. It kills itself after K steps of each attempt.
"""

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import torch

SAVE_EVERY = 5


class Killer:
    def __init__(self, after: int) -> None:
        self._left = after

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def data(count: int) -> list[dict[str, torch.Tensor]]:
    return [{"x": torch.ones(4), "labels": torch.zeros(1)} for _ in range(count)]


def with_transformers(args: argparse.Namespace) -> None:
    import transformers

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (self.layer(x) - labels).square().mean()}

    killer = Killer(args.kill_after)

    class Kills(transformers.TrainerCallback):
        def on_step_begin(self, *_args: Any, **_kwargs: Any) -> None:
            killer.step()

    trainer = transformers.Trainer(
        Model(),
        transformers.TrainingArguments(
            output_dir=str(args.dir), max_steps=args.steps, save_steps=SAVE_EVERY, optim="sgd",
            per_device_train_batch_size=1, use_cpu=True, report_to=[], disable_tqdm=True),
        train_dataset=data(args.steps),  # pyright: ignore[reportArgumentType]
        callbacks=[Kills()])
    trainer.train(resume_from_checkpoint=any(args.dir.glob("checkpoint-*")))


def with_lightning(args: argparse.Namespace) -> None:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    killer = Killer(args.kill_after)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: dict[str, torch.Tensor], _index: int) -> torch.Tensor:
            killer.step()
            return (self.layer(batch["x"]) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    saves = ModelCheckpoint(dirpath=args.dir, every_n_train_steps=SAVE_EVERY, save_last=True,
                            filename="step")
    trainer = lightning.Trainer(
        max_steps=args.steps, accelerator="cpu", devices=1, callbacks=[saves], logger=False,
        enable_progress_bar=False, enable_model_summary=False)
    last = args.dir / "last.ckpt"
    loader = torch.utils.data.DataLoader(data(args.steps))  # pyright: ignore[reportArgumentType]
    trainer.fit(Model(), loader, ckpt_path=str(last) if last.exists() else None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--kill-after", type=int, required=True)
    parser.add_argument("--framework", required=True)
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    (with_transformers if args.framework == "transformers" else with_lightning)(args)


if __name__ == "__main__":
    main()
