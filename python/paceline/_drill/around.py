"""Runs a script of the user's, and breaks one rank of it after some steps of its optimizer.

around.py --kind KIND --dir DIR --rank R --at STEP SCRIPT [ARGS…]

The fault comes once, in the first world. Before it the rank writes the time into DIR/struck.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from faults import IN_STEP, read_forever


class Strike:
    """A hook of torch's, called after each step of any optimizer."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.steps = 0

    def __call__(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.steps += 1
        if self.steps != self.options.at:
            return
        part = self.options.dir / "struck.part"
        part.write_text(str(time.time_ns()))
        part.rename(self.options.dir / "struck")
        if self.options.kind == "blocked_read":
            read_forever(self.options.dir / "shard.fifo")
        else:
            IN_STEP[self.options.kind]()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--at", type=int, required=True)
    parser.add_argument("script", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if is_first and int(os.environ["RANK"]) == options.rank:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(Strike(options))
    sys.argv = options.script
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
