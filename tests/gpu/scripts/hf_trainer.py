"""A small GPT-2 under Hugging Face's Trainer on a GPU: hf_trainer.py DIR OUT DIE_AT DEVICE"""

import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from paceline.integrations.transformers import FlashCheckpoint
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Die(TrainerCallback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if is_first and state.global_step == self.at:
            os.kill(os.getpid(), 9)


def main() -> None:
    directory, out, die_at, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32)
    model = GPT2LMHeadModel(config)
    rows = torch.randint(0, 64, (64, 16), generator=torch.Generator().manual_seed(2))
    data = [{"input_ids": row, "labels": row} for row in rows]
    args = TrainingArguments(
        output_dir=out + "-hf", num_train_epochs=3, per_device_train_batch_size=4,
        save_strategy="no", report_to="none", disable_tqdm=True, seed=3,
        use_cpu=device == "cpu", bf16=device == "cuda")
    flash = FlashCheckpoint(directory, keep=2)
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[flash, Die(die_at)])
    trainer.train(resume_from_checkpoint=flash.resume(trainer))
    assert next(model.parameters()).device.type == device
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, out)
    with open(out + ".json", "w") as file:
        json.dump({"step": trainer.state.global_step, "restored": flash.restored}, file)


if __name__ == "__main__":
    main()
