"""What persisting costs the training: step times with and without it, the save's own stall apart.

    .venv/bin/python -m bench.checkpoint.inflation --pairs 5

One process of one thread trains for `--seconds` and saves every tenth step. In one half of the
runs nothing goes to the disk, in the other a checkpoint is always on its way; they alternate. The
time of a step is that of its arithmetic, without the call of `save`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness import BENCH, Samples, machine


def child(folder: Path, size: int, seconds: float, every: int) -> None:
    import paceline.torch as pl
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])
    optimizer = torch.optim.AdamW(model.parameters())
    ballast = torch.nn.ParameterDict({"ballast": torch.randn(size // 4)})
    state = {"model": model, "optimizer": optimizer, "ballast": ballast}
    points = torch.randn(64, 512)
    checkpoints = pl.Checkpointer(folder, keep=1, every=every)
    step = checkpoints.restore(state)
    times: list[float] = []
    until = time.monotonic() + seconds + 8
    while time.monotonic() < until:
        begun = time.monotonic()
        model(points).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        done = time.monotonic()
        if done > until - seconds:  # all memory has been found by then
            times.append(done - begun)
        if step % 10 == 0:
            checkpoints.save(step, state)
        step += 1
    committed = sum(1 for _ in folder.glob("step-*"))
    mean = statistics.fmean(times)
    print(json.dumps({"mean": mean, "n": len(times), "committed": committed}), flush=True)
    checkpoints.close()


def main() -> None:
    options = argparse.ArgumentParser(description="Step times while a checkpoint is persisted.")
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--seconds", type=float, default=15)
    options.add_argument("--mib", type=int, default=512)
    options.add_argument("--child", nargs=4)
    args = options.parse_args()
    if args.child:
        folder, size, seconds, every = args.child
        child(Path(folder), int(size), float(seconds), int(every))
        return
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint_inflation")
    ratios: list[float] = []
    for pair in range(args.pairs):
        means: dict[str, float] = {}
        for way in ("memory", "disk")[:: 1 if pair % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory(prefix="paceline-bench-", dir=BENCH.parent) as folder:
                every = "10" if way == "disk" else str(10**9)
                size, seconds = str(args.mib << 20), str(args.seconds)
                command = [sys.executable, __file__, "--child", folder, size, seconds, every]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            means[way] = row.pop("mean")
            samples.add(way, means[way], mib=args.mib, **row)
        ratios.append(means["disk"] / means["memory"])
    shown = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    median = statistics.median(ratios)
    print(f"checkpoint_inflation: step time while persisting {median:.3f} of without ({shown})")


if __name__ == "__main__":
    main()
