"""Trains a global batch over gloo; a step takes as long as its number of ranks says.

    sized.py --checkpoint DIR --out DIR [--constant S] [--work S] [--exchange S] [--plain]

A step sleeps constant + work / n + exchange * (n - 1) seconds with n ranks. Each step is saved in
memory, and counted in the model, so a step that is lost or done twice shows in DIR/count. Rank 0
tells all in each step whether DIR/enough is there, and then they end together. With --plain the
data comes from torch's own loader, which has a batch a rank.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist

SAMPLES = 4096


def batches(plain: bool) -> tuple[object, Iterator[object]]:
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES))
    if plain:
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        return None, itertools.chain.from_iterable(itertools.repeat(loader))
    elastic = pl.ElasticLoader(pl.ElasticDataset(data, shuffle=True, seed=3), global_batch=12)

    def forever() -> Iterator[object]:
        while True:
            yield from elastic

    return elastic, forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--constant", type=float, default=0.01)
    parser.add_argument("--work", type=float, default=0.06)
    parser.add_argument("--exchange", type=float, default=0.01)
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    seconds = args.constant + args.work / size + args.exchange * (size - 1)

    loader, stream = batches(args.plain)
    model = torch.nn.Linear(8, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = {"model": model} if loader is None else {"model": model, "loader": loader}
    ckpt = pl.Checkpointer(args.checkpoint, keep=2, every=1000)
    step = ckpt.restore(state)
    for _batch in stream:
        time.sleep(seconds)
        over = torch.tensor([int(dist.get_rank() == 0 and (args.out / "enough").exists())])
        dist.all_reduce(over)
        model.weight.grad = torch.full_like(model.weight, -1.0)
        optimizer.step()  # adds 1
        pl.step(step, total=1_000_000)  # long enough that a better size is worth a change
        ckpt.save(step, state)
        step += 1
        if over.item() > 0:
            break
    ckpt.close()
    assert model.weight.eq(step).all(), f"{model.weight} after {step} steps"
    if dist.get_rank() == 0:
        (args.out / "count").write_text(str(step))


if __name__ == "__main__":
    main()
