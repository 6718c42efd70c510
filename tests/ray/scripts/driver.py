"""A user's Ray program: `driver.py DIR`. Its function trains until there is a file DIR/end."""

from __future__ import annotations

import sys
from typing import Any

from paceline.integrations.ray import PacelineTrainer


def train(config: dict[str, Any]) -> None:
    import time
    from pathlib import Path

    import paceline.torch as pl

    directory, step = Path(config["directory"]), 0
    while not (directory / "end").exists():
        (directory / "step").write_text(str(step))
        pl.step(step)
        step += 1
        time.sleep(0.1)


PacelineTrainer(train, name="driver", train_loop_config={"directory": sys.argv[1]}).fit()
