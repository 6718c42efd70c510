"""A training that any launcher of torch may start: gloo, dropout, a save in every step.

    foreign.py --checkpoint DIR --out DIR --steps N [--die RANK:STEP] [--accelerate]

With --die that rank ends itself with SIGKILL after its save of that step, once. What a rank saved,
restored and ended with stands in --out, as hashes of its whole state, and which samples it read.
"""

import argparse
import hashlib
import json
import os
import signal
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist

BATCH = 8


def fingerprint(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for _name, value in sorted(optimizer.state[parameter].items()):
                digest.update(value.numpy().tobytes())
    digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.hexdigest()


class Numbers(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.linspace(0, index + 1, 64)


def note(path: Path, **words: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(words) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--die", default="")
    parser.add_argument("--accelerate", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 8)
    )
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    bare = (model, optimizer)
    if args.accelerate:
        from accelerate import Accelerator

        torch.manual_seed(5)
        accelerator = Accelerator(cpu=True)
        model, optimizer = accelerator.prepare(model, optimizer)
    else:
        dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.no_grad():
        for number, parameter in enumerate(bare[0].parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
            parameter.mul_(number + 1)
    torch.manual_seed(rank)

    data = pl.ElasticDataset(Numbers(args.steps * BATCH), shuffle=True, seed=3)
    loader = pl.ElasticLoader(data, global_batch=BATCH)
    state = {"model": model, "optimizer": optimizer, "data": loader}
    ckpt = pl.Checkpointer(args.checkpoint, every="1h")
    start = ckpt.restore(state)
    note(args.out / f"restored-{rank}", start=start, why=ckpt.restored, pid=os.getpid(),
         state=fingerprint(*bare) if start else "")
    for step, (samples, batch) in enumerate(loader, start):
        optimizer.zero_grad()
        model(batch + torch.randn(len(batch), 64)).square().mean().backward()
        if not args.accelerate:  # DDP does that
            for parameter in bare[0].parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= size
        optimizer.step()
        # Before the save: whoever ends the others may come between the two, and what is restored
        # has to be known.
        note(args.out / f"saved-{rank}", step=step, state=fingerprint(*bare),
             samples=samples.tolist())
        ckpt.save(step, state)
        died = args.out / "died"
        if args.die == f"{rank}:{step}" and not died.exists():
            died.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
    ckpt.close()
    (args.out / f"final-{rank}").write_text(fingerprint(*bare))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
