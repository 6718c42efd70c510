"""The first save, a second after the Checkpointer was made, against a steady one.

    .venv/bin/python -m bench.checkpoint.first --rounds 5

Each sample is a process of its own without a launcher: it makes the state and the Checkpointer,
trains for a second (a busy loop of small tensor work, so that the memory is found beside training),
and saves in every step from then on. Sizes are those of the state.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness import Samples, machine


def train_for(seconds: float) -> None:
    import torch

    weights = torch.randn(256, 256)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        weights = torch.tanh(weights @ weights)


def child(folder: Path, size: int) -> None:
    import paceline.torch as pl
    import torch

    torch.set_num_threads(1)
    parts = 64
    each = size // 4 // parts
    tensors = {f"tensor{i}": torch.randn(each) for i in range(parts)}
    state = {"model": torch.nn.ParameterDict(tensors)}
    checkpoints = pl.Checkpointer(folder, keep=1, every=10**9)
    step = checkpoints.restore(state)
    train_for(1.0)
    stalls: list[float] = []
    for number in range(12):
        begun = time.monotonic()
        checkpoints.save(step + number, state)
        stalls.append(time.monotonic() - begun)
        train_for(0.3)
    print(json.dumps(stalls), flush=True)
    checkpoints.close()


def main() -> None:
    options = argparse.ArgumentParser(description="The first save against a steady one.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--mib", default="64,256,1024")
    options.add_argument("--child", nargs=2)
    args = options.parse_args()
    if args.child:
        child(Path(args.child[0]), int(args.child[1]))
        return
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint_first")
    text: list[str] = []
    for mib in map(int, args.mib.split(",")):
        ratios: list[float] = []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
                command = [sys.executable, __file__, "--child", folder, str(mib << 20)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            stalls: list[float] = json.loads(done.stdout.splitlines()[-1])
            steady = statistics.median(stalls[-5:])
            samples.add("paceline", stalls[0], mib=mib, steady=round(steady, 5), all=stalls)
            ratios.append(stalls[0] / steady)
        shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        text.append(f"{mib} MiB: first ÷ steady {shown}")
    print("checkpoint_first: " + " | ".join(text))


if __name__ == "__main__":
    main()
