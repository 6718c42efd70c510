"""Early stopping and the best model under Hugging Face's Trainer: killed anywhere, it ends alike.

Evaluated and saved every 5 steps; patience of 4 evaluations; the best model is loaded at the end.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from warm_process import Ended, Warm, warm_fixture

pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT INSTALLED: its adapter is untested")
pytestmark = pytest.mark.usefixtures("own_keeper")

warm = warm_fixture("transformers.models.gpt2.modeling_gpt2", "transformers.trainer",
                    "paceline.integrations.transformers")

SCRIPT = """
import hashlib, json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import ExportableState
from paceline.integrations.transformers import FlashCheckpoint

directory, out, event, at, restores = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5] == "restores"
rank = int(os.environ.get("RANK", "0"))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                                          torch.nn.Dropout(0.1), torch.nn.Linear(32, 2))
    def forward(self, x, labels=None):
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

chance = torch.Generator().manual_seed(1)
x = torch.randn(320, 16, generator=chance)
y = (x[:, 0] + 0.5 * torch.randn(320, generator=chance) > 0).long()

class Rows(Dataset):
    def __init__(self, begin, end):
        self.rows = range(begin, end)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return {"x": x[self.rows[index]], "labels": y[self.rows[index]]}

class Die(TrainerCallback):
    def once(self, what, state):
        if what == event and state.global_step == at:
            os.kill(os.getpid(), 9)
    def on_evaluate(self, args, state, control, **kwargs):
        self.once("evaluate", state)
    def on_step_begin(self, args, state, control, **kwargs):
        self.once("step", state)
    def on_train_end(self, args, state, control, **kwargs):
        self.once("end", state)

class CountsOnOne(TrainerCallback, ExportableState):
    # As callbacks do that log: only one rank has what it counts.
    def __init__(self):
        self.count = 0
    def on_evaluate(self, args, state, control, **kwargs):
        self.count += state.is_world_process_zero
    def state(self):
        return {"args": {}, "attributes": {"count": self.count}}

torch.manual_seed(0)
net = Net()
args = TrainingArguments(
    output_dir=out + "-hf", per_device_train_batch_size=8 // int(os.environ.get("WORLD_SIZE", "1")),
    gradient_accumulation_steps=2, num_train_epochs=12, learning_rate=5e-2, eval_strategy="steps",
    eval_steps=5, save_strategy="steps", save_steps=5, load_best_model_at_end=True,
    metric_for_best_model="eval_loss", greater_is_better=False, save_total_limit=3, logging_steps=5,
    use_cpu=True, report_to="none", disable_tqdm=True, seed=0,
    restore_callback_states_from_checkpoint=restores)
flash = FlashCheckpoint(directory, keep=2)
patience, counts = EarlyStoppingCallback(4), CountsOnOne()
trainer = Trainer(model=net, args=args, train_dataset=Rows(0, 256), eval_dataset=Rows(256, 320),
                  callbacks=[flash, patience, counts, Die()])
trainer.accelerator.scaler = torch.amp.GradScaler("cpu", growth_interval=3)  # as with float16
path = flash.resume(trainer)
resumed_count = counts.count
trainer.train(resume_from_checkpoint=path)
told = {
    "step": trainer.state.global_step,
    "best": trainer.state.best_metric,
    "scale": trainer.accelerator.scaler.get_scale(),
    "best_step": trainer.state.best_global_step,
    "weights": hashlib.sha256(b"".join(
        p.detach().numpy().tobytes() for p in net.parameters())).hexdigest(),
    "evaluations": [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row],
    "logged": [row["step"] for row in trainer.state.log_history if "loss" in row],
    "patience": [one.early_stopping_patience_counter for one in trainer.callback_handler.callbacks
                 if isinstance(one, EarlyStoppingCallback)],
    "count": [one.count for one in trainer.callback_handler.callbacks
              if isinstance(one, CountsOnOne) and rank == 0],
}
with open(f"{out}-{rank}.json", "w") as file:
    json.dump({"told": told, "why": flash.restored, "resumed_count": resumed_count}, file)
"""


def run(warm: Warm, folder: Path, name: str, ranks: int, *words: str) -> list[Ended]:
    paths = [str(folder / f"ckpt-{name}"), str(folder / name)]
    if ranks > 1:
        return warm.run_ranks(ranks, SCRIPT, *paths, *words)
    return [warm.run(SCRIPT, *paths, *words)]


def told(folder: Path, name: str, rank: int) -> dict[str, Any]:
    return json.loads((folder / f"{name}-{rank}.json").read_text())


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("restores", ["restores", "-"])
def test_it_ends_as_without_a_kill(
    warm: Warm, tmp_path: Path, ranks: int, restores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While step 5 is evaluated, between two evaluations, and when everything is done but said.

    `restores` is the Trainer's own switch, which changes nothing here.
    """
    for ended in run(warm, tmp_path, "whole", ranks, "-", "0", restores):
        assert ended.returncode == 0, ended.stderr
    whole = [told(tmp_path, "whole", rank)["told"] for rank in range(ranks)]
    last = whole[0]["step"]
    assert last < 12 * 16 and whole[0]["best_step"] < last, "it stops early, after the best model"
    for event, at, from_step in (("evaluate", 5, 3), ("step", 12, 11), ("end", last, last - 1)):
        name = f"{event}-{at}"
        for ended in run(warm, tmp_path, name, ranks, event, str(at), restores):
            assert ended.returncode == -9, ended.stderr
        with monkeypatch.context() as again:
            again.setenv("TORCHELASTIC_RESTART_COUNT", "1")
            for ended in run(warm, tmp_path, name, ranks, "-", "0", restores):
                assert ended.returncode == 0, f"{name}: {ended.stderr}"
        for rank in range(ranks):
            cut = told(tmp_path, name, rank)
            assert f"step {from_step}," in cut["why"], f"{name}: {cut}"
            assert cut["told"] == whole[rank], name
            # As the Trainer's own file: rank 0's, on all ranks.
            assert cut["resumed_count"] == (from_step + 1) // 5, f"{name}, rank {rank}"
