"""The workload of recovery.py: a small model on a GPU that notes when it came how far.

It is a plain torchrun script. One JSON line in `STAMPS/0.PID`, with CLOCK_MONOTONIC.
"""

import argparse
import json
import os
import time
from pathlib import Path

BEGIN = time.monotonic()  # before torch is imported

import torch  # noqa: E402

IMPORTED = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description="The workload of recovery.py.")
    parser.add_argument("--stamps", type=Path, required=True)
    args = parser.parse_args()
    torch.ones(1, device="cuda").item()
    about = {"rank": 0, "pid": os.getpid(), "world": 1, "begin": BEGIN, "imported": IMPORTED}
    about["context"] = time.monotonic()
    layers = [torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    points = torch.randn(64, 1024, device="cuda")
    about["ready"] = time.monotonic()
    step = 0
    while True:
        model(points).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        step += 1
        if step == 1:
            line = json.dumps({**about, "step": 1, "at": time.monotonic()})
            (args.stamps / f"0.{os.getpid()}").write_text(line + "\n")
        time.sleep(0.01)


if __name__ == "__main__":
    main()
