"""Ranks that lease their batches and add them up in a collective: a counting model, saved."""

import argparse
import time
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from leasing import Records


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--bad", type=int, default=-1)
    parser.add_argument("--hold", type=Path, help="step 10 waits until this file is there")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    loader = pl.LeasedLoader(
        pl.ElasticDataset(Records(given.samples, given.bad), seed=7), name="train", batch_size=4,
        lease=16, resume="checkpoint", num_workers=given.workers, bad_samples="skip",
        deadline=120)  # however long step 10 waits, it costs no lease
    state = {"counts": torch.zeros(given.samples), "data": loader}
    ckpt = pl.Checkpointer(str(given.checkpoint))
    step = ckpt.restore(state)
    for batch in loader:
        seen = torch.zeros(given.samples)
        seen[batch] = 1
        dist.all_reduce(seen)
        state["counts"] += seen
        time.sleep(0.01 * (1 + dist.get_rank()))
        while given.hold is not None and step == 10 and not given.hold.exists():
            time.sleep(0.01)
        ckpt.save(step, state)
        step += 1
    ckpt.close()
    counts = state["counts"].int().tolist()
    (given.out / f"end-{dist.get_rank()}").write_text(f"{step} {loader.left_out} {counts}")


if __name__ == "__main__":
    main()
