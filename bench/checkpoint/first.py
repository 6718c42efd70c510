"""The first save against a steady one, a second after the start and with time to fill the slots.

    .venv/bin/python -m bench.checkpoint.first --rounds 5
    .venv/bin/python -m bench.checkpoint.first --rounds 5 --mib 1024 --after fill

Each sample is a process of its own without a launcher: it makes the state and the Checkpointer,
trains (a busy loop of small tensor work, so that the memory is found beside training), and saves in
every step from then on. Sizes are those of the state.

`--after second` trains for a second before the first save. `--after fill` trains until the slots
are filled, and as long again. `--size steps` calls no restore: the first steps of an optimizer show
the size.
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


def train_until_filled(seconds_max: float = 120.0) -> float:
    """Train until no thread fills slots, and as long again. Returns how long the filling took."""
    from paceline._checkpoint import slots

    began = time.monotonic()
    while slots._reserving and time.monotonic() < began + seconds_max:
        train_for(0.02)
    took = time.monotonic() - began
    train_for(took)
    return took


def child(folder: Path, size: int, after: str, shown_by: str) -> None:
    import paceline.torch as pl
    import torch

    torch.set_num_threads(1)
    parts = 64
    each = size // 4 // parts
    tensors = {f"tensor{i}": torch.randn(each) for i in range(parts)}
    model = torch.nn.ParameterDict(tensors)
    state = {"model": model}
    checkpoints = pl.Checkpointer(folder, keep=1, every=10**9)
    step = 0
    if shown_by == "restore":
        step = checkpoints.restore(state)
    else:
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(2):
            optimizer.step()
    filled = train_until_filled() if after == "fill" else 0.0
    if after == "second":
        train_for(1.0)
    stalls: list[float] = []
    for number in range(12):
        begun = time.monotonic()
        checkpoints.save(step + number, state)
        stalls.append(time.monotonic() - begun)
        train_for(0.3)
    print(json.dumps({"stalls": stalls, "filled": filled}), flush=True)
    checkpoints.close()


def main() -> None:
    options = argparse.ArgumentParser(description="The first save against a steady one.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--mib", default="64,256,1024")
    options.add_argument("--after", choices=["second", "fill"], default="second")
    options.add_argument("--size", choices=["restore", "steps"], default="restore")
    options.add_argument("--child", nargs=2)
    args = options.parse_args()
    if args.child:
        child(Path(args.child[0]), int(args.child[1]), args.after, args.size)
        return
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint_first")
    text: list[str] = []
    for mib in map(int, args.mib.split(",")):
        ratios: list[float] = []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
                command = [sys.executable, __file__, "--child", folder, str(mib << 20),
                           "--after", args.after, "--size", args.size]  # fmt: skip
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            told = json.loads(done.stdout.splitlines()[-1])
            stalls: list[float] = told["stalls"]
            steady = statistics.median(stalls[-5:])
            samples.add("paceline", stalls[0], mib=mib, steady=round(steady, 5), after=args.after,
                        size=args.size, filled=round(told["filled"], 3), all=stalls)  # fmt: skip
            ratios.append(stalls[0] / steady)
        shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        text.append(f"{mib} MiB: first ÷ steady {shown}")
    print("checkpoint_first: " + " | ".join(text))


if __name__ == "__main__":
    main()
