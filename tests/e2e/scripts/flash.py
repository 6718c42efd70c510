"""A counting model: each step adds one to every weight, so that any mix of steps shows.

    flash.py --checkpoint DIR --steps N [--every X] [--pace S] [--out FILE] [--cut] [--frozen]
             [--lazy R] [--fail STEP] [--replicas N]

Ranks meet in every step (a file a rank stands for a collective), so none gets ahead by two. With
--cut each rank holds its own part of the weights, as a sharded model does; without, all the same.
With --frozen there are 20 MB that nobody trains, too. With --lazy R, rank R
leaves out its last save. With --fail every world ends at that step.
"""

import argparse
import time
from pathlib import Path

import paceline.torch as pl
import torch

SIZE = 50_000


def meet(folder: Path, generation: int, rank: int, world_size: int, step: int) -> None:
    """Returns when every rank of this world has come to this step."""
    mine = folder / f"g{generation}-r{rank}"
    part = mine.with_suffix(".part")
    part.write_text(str(step))
    part.replace(mine)
    others = [folder / f"g{generation}-r{other}" for other in range(world_size)]
    while True:
        try:
            if all(int(other.read_text()) >= step for other in others):
                return
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", default=None)
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--lazy", type=int, default=-1)
    parser.add_argument("--fail", type=int, default=-1)
    parser.add_argument("--replicas", type=int, default=None)
    args = parser.parse_args()
    rank, world_size = pl.rank(), pl.world_size()
    args.out.mkdir(parents=True, exist_ok=True)

    model = torch.nn.Linear(SIZE, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(rank * 1000 if args.cut else 0)
    first = model.weight.detach().clone()
    if args.frozen:  # zeros only if there is nothing to restore
        model.base = torch.nn.Parameter(torch.zeros(5_000_000), requires_grad=False)
    state = {"model": model, "kind": "counting"}
    ckpt = pl.Checkpointer(args.checkpoint, keep=2, every=args.every, replicated=not args.cut,
                           replicas=args.replicas)
    start = ckpt.restore(state)
    with (args.out / f"restored-{rank}").open("a") as file:
        file.write(f"{pl.generation()} {start} {ckpt.restored}\n")
    if args.frozen and start == 0:
        with torch.no_grad():
            model.base.fill_(7)
    for step in range(start, args.steps):
        if step == args.fail:
            raise ValueError("bad batch")
        assert torch.equal(model.weight, first + step), f"step {step}: this is no whole step"
        with torch.no_grad():
            model.weight += 1
        meet(args.out, pl.generation(), rank, world_size, step)
        if rank != args.lazy or step + 1 < args.steps:
            ckpt.save(step, state)
        time.sleep(args.pace)
    assert not args.frozen or model.base.eq(7).all(), "the frozen ones came back"
    ckpt.close()
    (args.out / f"final-{rank}").write_text(str(model.weight[0, 0].item() - first[0, 0].item()))


if __name__ == "__main__":
    main()
