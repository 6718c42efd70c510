"""Blocks are compiled where that pays, and the plan says when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paceline.parallel.compiled import Times, verdict_of

SCRIPT = """
import torch
from torch import nn
from torch.nn.functional import mse_loss
from paceline import parallel
from paceline.parallel import compiled

compiled._GAIN_LEAST = -float("inf")  # whatever it gains: blocks of this size are all noise
torch.set_num_threads(1)
torch.manual_seed(1)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.tanh(self.inner(x)) * 0.5

def made():
    torch.manual_seed(1)
    return nn.Sequential(Block(), Block(), Block(), nn.Linear(8, 2))

def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)

x, y = torch.randn(6, 8), torch.randn(6, 2)
job = parallel.parallelize(made(), optimizer=sgd, loss=mse_loss, example=(x, y), global_batch=6,
                           compiled="auto")
alone = made()
optimizer = sgd(alone.parameters())
for _ in range(3):
    job.step((x, y))
    optimizer.zero_grad()
    mse_loss(alone(x), y).backward()
    optimizer.step()
found, wanted = job.state_dict(), alone.state_dict()
assert list(found) == list(wanted), "names are those of the undivided model"
worst = max(float((found[name] - one).abs().max()) for name, one in wanted.items())
assert worst < 1e-5, worst
blocks = sum(one._compiled_call_impl is not None for one in job.model.children())
print(blocks, "blocks:", job.because)
"""


def row(plain: float, compiled: float, compiling: float = 10.0, why: str = "") -> Times:
    return Times(plain, compiled, compiling, why)


def test_a_faster_block_is_used_and_says_from_when_on_it_pays() -> None:
    found = verdict_of([row(0.010, 0.005)], blocks=10, passes=2)
    assert found.is_used
    # Forward and backward passes gain 15 ms a block, 300 ms a step.
    assert found.because == "blocks are compiled: each takes 0.50 of the time, which pays after " \
                            "34 steps"  # fmt: skip


def test_the_slowest_rank_decides() -> None:
    assert not verdict_of([row(0.010, 0.005), row(0.010, 0.0099)], blocks=4, passes=1).is_used
    assert verdict_of([row(0.010, 0.005), row(0.020, 0.012)], blocks=4, passes=1).is_used


def test_no_gain_and_no_compiler_are_told() -> None:
    slower = verdict_of([row(0.010, 0.012)], blocks=4, passes=1)
    assert (slower.is_used, slower.because) == (
        False, "a compiled block takes 1.20 of the time: that does not pay")  # fmt: skip
    failed = verdict_of([row(0.01, 0.005), row(0.01, 0.0, why="no C++ compiler")], 4, 1)
    assert (failed.is_used, failed.because) == (
        False, "a block cannot be compiled: no C++ compiler")  # fmt: skip


@pytest.mark.long
def test_compiled_blocks_train_to_the_same_weights(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "train.py"], check=False, cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 blocks: it is chosen for these devices; blocks are compiled")
