"""Sums one number over all ranks by gloo, and writes the sum: `gloo_sum.py FILE`."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    Path(sys.argv[1]).write_text(str(int(total.item())))
dist.destroy_process_group()
