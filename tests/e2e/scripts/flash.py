"""A counting model: each step adds one to every weight, so that any mix of steps shows.

    flash.py --checkpoint DIR --steps N [--every X] [--pace S] [--out FILE] [--cut] [--frozen]
             [--lazy R] [--fail STEP] [--replicas N] [--hold STEP]

Ranks meet in every step (a file a rank stands for a collective), so none gets ahead by two. With
--cut each rank holds its own part of the weights, as a sharded model does; without, all the same.
With --frozen there are 20 MB that nobody trains, too. With --lazy R, rank R
leaves out its last save. With --fail every world ends at that step, which all ranks have reached.
With --hold nobody begins that step or a later one until there is a file OUT/go; but a world that is
restored there makes one step. The job ends after N steps, or soon after there is a file OUT/enough;
OUT/end has then the number of its last step.
"""

import argparse
import time
from pathlib import Path

import paceline.torch as pl
import torch

SIZE = 50_000
MORE_STEPS = 20  # of a job that is told to end


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


def last_step(folder: Path, rank: int, step: int, last: int) -> int:
    """The step to end with, for a rank that is about to begin `step`.

    Rank 0 chooses it when it finds OUT/enough, before it comes to the meeting of this step. No
    other rank can have left that meeting, so each one reads the choice before it is past the end.
    """
    end = folder / "end"
    if rank == 0 and not end.exists() and (folder / "enough").exists():
        part = folder / "end.part"
        part.write_text(str(min(last, step + MORE_STEPS)))
        part.replace(end)
    return int(end.read_text()) if end.exists() else last


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
    parser.add_argument("--hold", type=int)
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
    step = start
    while step <= (last := last_step(args.out, rank, step, args.steps - 1)):
        is_held = args.hold is not None and step >= args.hold and step > start
        while is_held and not (args.out / "go").exists():
            time.sleep(0.02)
        if step == args.fail:
            meet(args.out, pl.generation(), rank, world_size, step)  # all have saved the one before
            raise ValueError("bad batch")
        assert torch.equal(model.weight, first + step), f"step {step}: this is no whole step"
        with torch.no_grad():
            model.weight += 1
        meet(args.out, pl.generation(), rank, world_size, step)
        if rank != args.lazy or step < last:
            ckpt.save(step, state)
        step += 1
        time.sleep(args.pace)
    assert not args.frozen or model.base.eq(7).all(), "the frozen ones came back"
    ckpt.close()
    (args.out / f"final-{rank}").write_text(str(model.weight[0, 0].item() - first[0, 0].item()))


if __name__ == "__main__":
    main()
