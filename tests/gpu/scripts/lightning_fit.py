"""A small model under Lightning on a GPU: lightning_fit.py DIR OUT DIE_AT DEVICE"""

import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from paceline.integrations.lightning import FlashCheckpoint


class Net(LightningModule):
    def __init__(self, die_at: int) -> None:
        super().__init__()
        self.die_at = die_at
        self.net = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 1)
        )

    def training_step(self, batch, batch_idx):
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if is_first and self.trainer.global_step == self.die_at:
            os.kill(os.getpid(), 9)
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def main() -> None:
    directory, out, die_at, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    seed_everything(1)
    # Equal batches: within an epoch Lightning begins a plain loader anew.
    data = torch.utils.data.TensorDataset(torch.arange(32.0).reshape(2, 16).repeat(16, 1) / 10)
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    net = Net(die_at)
    flash = FlashCheckpoint(directory, keep=2)
    trainer = Trainer(
        max_epochs=3, accelerator="gpu" if device == "cuda" else "cpu", devices=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        deterministic=True, precision="bf16-mixed" if device == "cuda" else 32, callbacks=[flash],
        plugins=[flash.io])
    trainer.fit(net, loader, ckpt_path=flash.resume())
    torch.save({name: tensor.cpu() for name, tensor in net.state_dict().items()}, out)
    with open(out + ".json", "w") as file:
        json.dump({"step": trainer.global_step, "restored": flash.restored}, file)


if __name__ == "__main__":
    main()
