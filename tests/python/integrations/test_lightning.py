"""Flash checkpoints under the real Lightning: killed at any step, it goes on bit for bit."""

from pathlib import Path

import pytest
from warm_process import Warm, warm_fixture

pytest.importorskip("lightning", reason="LIGHTNING IS NOT INSTALLED: its adapter is not tested")
pytestmark = pytest.mark.usefixtures("own_keeper")

warm = warm_fixture("lightning.pytorch", "paceline.integrations.lightning")

SCRIPT = """
import sys, logging, os, warnings
warnings.simplefilter("ignore")
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from paceline.integrations.lightning import FlashCheckpoint

directory, out, die_at, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5),
                                       torch.nn.Linear(8, 1))
    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == die_at:
            os.kill(os.getpid(), 9)
        return self.net(batch[0]).square().mean()
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

seed_everything(1 if die_at >= 0 else 77)
if os.environ.get("WHOLE"):
    seed_everything(1)
# Equal batches: within an epoch Lightning begins a plain loader anew.
data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(2, 4).repeat(4, 1) / 10)
loader = torch.utils.data.DataLoader(data, batch_size=2)
if os.environ.get("ELASTIC"):  # it has a position, so its batches may differ
    import paceline.torch as pl
    data = torch.utils.data.TensorDataset(torch.arange(32.0).reshape(8, 4) / 10)
    loader = pl.ElasticLoader(pl.ElasticDataset(data, shuffle=True, seed=7), global_batch=2)
net = Net()
flash = FlashCheckpoint(directory, keep=2, every=2)
trainer = Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False, callbacks=[flash],
                  plugins=[flash.io])
path = flash.resume()
trainer.fit(net, loader, ckpt_path=path)
torch.save({"net": net.state_dict(), "why": flash.restored, "step": trainer.global_step}, out)
"""


def run(
    warm: Warm,
    tmp_path: Path,
    name: str,
    die_at: int,
    *,
    is_whole: bool = False,
    is_elastic: bool = False,
) -> str:
    words = [str(tmp_path / f"ckpt-{name}"), str(tmp_path / f"{name}.pt"), str(die_at), "3"]
    env = {"WHOLE": "1"} if is_whole else {}
    done = warm.run(SCRIPT, *words, env=env | ({"ELASTIC": "1"} if is_elastic else {}))
    assert done.returncode == (-9 if die_at >= 0 else 0), done.stderr
    return done.stderr


@pytest.mark.parametrize("is_elastic", [False, True])
@pytest.mark.parametrize("die_at", [4, 6])
def test_it_goes_on_bit_for_bit(
    warm: Warm, tmp_path: Path, die_at: int, is_elastic: bool
) -> None:
    """At an epoch's first step, and in the middle of one."""
    import torch

    run(warm, tmp_path, "whole", -1, is_whole=True, is_elastic=is_elastic)
    run(warm, tmp_path, "cut", die_at, is_elastic=is_elastic)
    told = run(warm, tmp_path, "cut", -1, is_elastic=is_elastic)
    batch = die_at % 4
    is_told = batch > 0 and not is_elastic
    assert ("begins this epoch's data again" in told) is is_told
    assert f"after {batch} batches of it" in told or not is_told
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)
    cut = torch.load(tmp_path / "cut.pt", weights_only=True)
    assert f"step {die_at - 1}" in cut["why"] and "memory" in cut["why"]
    assert cut["step"] == whole["step"] == 12
    for key, value in whole["net"].items():
        assert torch.equal(value, cut["net"][key]), key
