"""Two ranks that save a different number of steps, and wait for each other after their close."""

import sys

import torch
import torch.distributed as dist
from paceline.torch import Checkpointer, CheckpointError

dist.init_process_group("gloo")
rank = dist.get_rank()
state = {"x": torch.zeros(4)}
ckpt = Checkpointer(sys.argv[1], every=1)
start = ckpt.restore(state)
for step in range(start, start + 5 + rank):
    state["x"] += 1
    ckpt.save(step, state)
try:
    ckpt.close()
    print(f"rank {rank} closed")
except CheckpointError as error:
    print(f"rank {rank}: {error.why}")
dist.barrier()
print(f"rank {rank} leaves")
