"""A planning run: a script goes as far as `parallelize`, without memory, peers or checkpoints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import DEADLINE_S

HEAD = """
import os, sys
import torch
from torch import nn
from torch.nn.functional import mse_loss
import paceline.torch as pl
from paceline import parallel
"""

TRAIN = HEAD + """
import torch.distributed as dist

dist.init_process_group("nccl", init_method="tcp://nowhere.invalid:1")
assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
width = int(sys.argv[1])
model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
with pl.Checkpointer("runs") as ckpt:
    state = {"model": model}
    assert ckpt.restore(state) == 0
    ckpt.save(1, state).wait("durable")
    batch = (torch.randn(4, width), torch.randn(4, 1))
    assert os.environ["WANDB_MODE"] == "disabled"
    parallel.parallelize(model, optimizer=torch.optim.AdamW, loss=mse_loss, example=batch,
                         global_batch=4, checkpointer=ckpt)
open("went-on", "w")
"""


def planned(
    folder: Path, script: str, *arguments: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    (folder / "train.py").write_text(script)
    answer = folder / "summary.json"
    command = [sys.executable, "-m", "paceline.parallel.planning", "train.py", *arguments]
    environment = os.environ | {"PACELINE_PLANNING": str(answer)}
    environment.pop("WANDB_MODE", None)
    done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True,
                          text=True, timeout=DEADLINE_S)  # fmt: skip
    return done, answer


def test_a_model_larger_than_memory_is_planned_and_nothing_is_left(tmp_path: Path) -> None:
    width = 1 << 20  # a layer of four TiB
    done, answer = planned(tmp_path, TRAIN, str(width))
    assert done.returncode == 0, done.stderr
    summary = json.loads(answer.read_text())
    assert summary["layers"][0]["parameters"] == width * width + width
    assert summary["bytes"]["optimizer"] == 8
    left = ["summary.json", "summary.json.wishes", "train.py"]
    assert sorted(one.name for one in tmp_path.iterdir()) == left
    assert json.loads((tmp_path / left[1]).read_text()) == {"global_batch": 4}


LOADED = HEAD + """
from torch.utils.data import DataLoader, TensorDataset

class Samples:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return torch.zeros(3), torch.ones(1)

for loader in (DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 1)), 4, shuffle=True),
               DataLoader(Samples(), batch_size=4, shuffle=True, num_workers=2, drop_last=True)):
    batches = list(loader)
    assert len(batches) == 10 and batches[-1][0].shape == (4, 3)
parallel.parallelize(nn.Linear(3, 1), optimizer=torch.optim.SGD, loss=mse_loss,
                     example=next(iter(loader)), global_batch=4)
"""


def test_an_example_may_come_from_a_dataloader(tmp_path: Path) -> None:
    done, answer = planned(tmp_path, LOADED)
    assert done.returncode == 0, done.stderr
    assert json.loads(answer.read_text())["layers"][0]["parameters"] == 4


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("nn.Linear(2, 2).to('cpu')\n",
         ["needs tensors with content", "train.py, line 8", "leave the device to parallelize",
          "paceline plan --model"]),
        ("pass\n", ["without a model to plan", "never called paceline.parallel.parallelize"]),
        ("{}['learning_rate']\n",
         ["the script failed, and did not come as far", "KeyError: 'learning_rate'", "Traceback",
          "fix    mend line 8 of the script; python train.py shows the same error"]),
        ("parallel.parallelize(nn.Linear(2, 1), optimizer=torch.optim.SGD, loss=mse_loss,\n"
         "  example=(torch.zeros(2, 3), torch.zeros(2, 1)), global_batch=2)\n",
         ["the model cannot be described", "Linear, 2 samples"]),
    ],
    ids=["values", "nothing", "error", "shapes"],
)  # fmt: skip
@pytest.mark.long
def test_a_script_that_cannot_be_planned_is_told_in_four_parts(
    script: str, told: list[str], tmp_path: Path
) -> None:
    done, answer = planned(tmp_path, HEAD + script)
    assert done.returncode == 1 and not answer.exists()
    assert "RuntimeWarning" not in done.stderr
    for one in [*told, "  where  ", "  why    ", "  fix    "]:
        assert one in done.stderr, done.stderr


@pytest.mark.long
def test_the_command_plans_a_script_with_its_own_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    command = [str(Path(sys.executable).parent / "paceline"), "plan", "--json", "--cluster",
               "H100-80G:4,A100-80G:4", "--global-batch", "64", "train.py", "256"]  # fmt: skip
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True,
                          timeout=DEADLINE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert sum(plan["shares"]) == 64 and plan["because"]
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


PRETRAINED = HEAD + """
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

with torch.device("cpu"):
    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=3, vocab_size=100,
                         num_attention_heads=4, num_key_value_heads=4)
    LlamaForCausalLM(config).save_pretrained("small")
model = AutoModelForCausalLM.from_pretrained("small", dtype=torch.bfloat16, {more})
batch = {{"input_ids": torch.zeros(2, 8, dtype=torch.long),
         "labels": torch.zeros(2, 8, dtype=torch.long)}}
parallel.parallelize(model, optimizer=torch.optim.AdamW, global_batch=4, example=batch,
                     loss=lambda logits, labels: logits.float().mean())
"""


def test_a_pretrained_model_is_planned_by_its_config(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    done, answer = planned(tmp_path, PRETRAINED.format(more="attn_implementation='eager'"))
    assert done.returncode == 0, done.stderr
    summary = json.loads(answer.read_text())
    assert [one.get("count", 1) for one in summary["layers"]][1] == 3
    assert summary["bytes"]["weight"] == 2, "its dtype"


@pytest.mark.long
def test_a_pretrained_model_that_is_more_than_its_config_is_told(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    done, _ = planned(tmp_path, PRETRAINED.format(more="ignore_mismatched_sizes=True"))
    assert done.returncode == 1
    assert "AutoModelForCausalLM.from_config(config)" in done.stderr, done.stderr
    assert "paceline plan --model config.json" in done.stderr


def test_a_run_without_a_script_or_a_file_says_what_it_needs() -> None:
    command = [sys.executable, "-m", "paceline.parallel.planning"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1 and "it needs a script" in done.stderr
