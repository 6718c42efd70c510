"""An unmodified script, as people have them: it saves by torch.save and resumes by itself.

    plain.py --dir DIR --steps N --optimizer NAME [--kill-after K] [--raise-after K]
             [--save-every K] [--forget]

It kills itself, or raises, after K steps of each attempt, until the training is done. With --forget
it never loads what it saved.
"""

import argparse
import os
import signal
from pathlib import Path

import torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--optimizer", default="AdamW")
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--kill-after", type=int, default=-1)
    parser.add_argument("--raise-after", type=int, default=-1)
    parser.add_argument("--forget", action="store_true")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    path = args.dir / "last.pt"
    model = torch.nn.Linear(4, 1)
    optimizer = getattr(torch.optim, args.optimizer)(model.parameters(), lr=0.01)
    begin = 0
    if path.exists() and not args.forget:
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    for step in range(begin, args.steps):
        if step - begin == args.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if step - begin == args.raise_after:
            raise ValueError("bad batch")
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if (step + 1) % args.save_every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "step": step + 1}, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path)
    (args.dir / "done").write_text(str(args.steps))


if __name__ == "__main__":
    main()
