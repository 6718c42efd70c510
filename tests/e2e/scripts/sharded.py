"""FSDP2 under a Checkpointer: every rank holds its part, and a world of another size cuts anew.

    sharded.py --checkpoint DIR --steps N --out FILE

Every rank sees the same batch, so the whole weights after N steps depend on the world's size by the
order of a sum alone. FILE gets them, and the whole state of the optimizer.
"""

import argparse
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    # 7 and 5 rows: parts of unequal size, and a rank without any of the last one.
    model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    state = {"model": model, "optimizer": optimizer}
    ckpt = pl.Checkpointer(args.checkpoint)
    start = ckpt.restore(state)
    for step in range(start, args.steps):
        batch = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        ckpt.save(step, state)
    ckpt.close()

    def whole(value: torch.Tensor) -> torch.Tensor:
        return value.full_tensor() if isinstance(value, DTensor) else value

    tensors = {name: whole(value.detach()) for name, value in model.named_parameters()}
    for name, parameter in model.named_parameters():
        for what, value in optimizer.state[parameter].items():
            tensors[f"{name}.{what}"] = whole(value)
    if dist.get_rank() == 0:
        torch.save({"start": start, "why": ckpt.restored, "tensors": tensors}, args.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
