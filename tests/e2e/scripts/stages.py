"""A rank of a pipeline: every rank's stage has the same names and shapes, and its own values."""

from __future__ import annotations

import sys
import time

import paceline.torch as pl
import torch
import torch.distributed as dist

directory, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
stage = torch.nn.Linear(2, 2, bias=False)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1, momentum=0.9)
with torch.no_grad():
    stage.weight.fill_(100.0 + rank)
ckpt = pl.Checkpointer(directory, every=1)
state = {"stage": stage, "optimizer": optimizer}
start = ckpt.restore(state)
weight = stage.weight[0, 0].item()
print(f"rank {rank} of {dist.get_world_size()} starts at {start} with {weight:.2f}")
sys.stdout.flush()
for step in range(start, steps):
    optimizer.zero_grad()
    stage(torch.full((2,), rank + 1.0)).sum().backward()
    optimizer.step()
    dist.barrier()
    ckpt.save(step, state)
    pl.step(step)
    time.sleep(0.01)
ckpt.close()
dist.destroy_process_group()
