"""Flash checkpoints under the real Hugging Face Trainer: killed at any step, it goes on bit for
bit."""

from pathlib import Path

import pytest
from warm_process import Warm, warm_fixture

pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT INSTALLED: its adapter is untested")
pytestmark = pytest.mark.usefixtures("own_keeper")

warm = warm_fixture("transformers.models.gpt2.modeling_gpt2", "transformers.trainer",
                    "paceline.integrations.transformers")

SCRIPT = """
import sys, os, warnings
warnings.simplefilter("ignore")
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from paceline.integrations.transformers import FlashCheckpoint

directory, out, die_at = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Die(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == die_at:
            os.kill(os.getpid(), 9)

torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=32, n_positions=16))
rows = torch.randint(0, 32, (16, 8), generator=torch.Generator().manual_seed(2))
data = [{"input_ids": row, "labels": row} for row in rows]
args = TrainingArguments(output_dir=out + "-hf", num_train_epochs=3, per_device_train_batch_size=4,
                         save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
                         logging_steps=2, seed=3)
flash = FlashCheckpoint(directory, keep=2, every=2)
trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[flash, Die()])
trainer.train(resume_from_checkpoint=flash.resume(trainer))
torch.save({"net": model.state_dict(), "why": flash.restored, "step": trainer.state.global_step,
            "logs": len(trainer.state.log_history)}, out)
"""


def run(warm: Warm, tmp_path: Path, name: str, die_at: int) -> None:
    words = [str(tmp_path / f"ckpt-{name}"), str(tmp_path / f"{name}.pt"), str(die_at)]
    done = warm.run(SCRIPT, *words)
    assert done.returncode == (-9 if die_at >= 0 else 0), done.stderr


@pytest.mark.parametrize("die_at", [4, 6])
def test_it_goes_on_bit_for_bit(warm: Warm, tmp_path: Path, die_at: int) -> None:
    """At an epoch's first step, and in the middle of one."""
    import torch

    run(warm, tmp_path, "whole", -1)
    run(warm, tmp_path, "cut", die_at)
    run(warm, tmp_path, "cut", -1)
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)
    cut = torch.load(tmp_path / "cut.pt", weights_only=True)
    assert f"step {die_at - 1}" in cut["why"] and "memory" in cut["why"]
    assert cut["step"] == whole["step"] == 12
    assert cut["logs"] == whole["logs"]
    for key, value in whole["net"].items():
        assert torch.equal(value, cut["net"][key]), key
