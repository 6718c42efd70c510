"""Prints much at each step, for ever, or raises: `printing.py never|STEP|often`, or ends as soon as
the file GO exists: `printing.py end GO`.

`often` raises in each world, ten steps later than in the one before, and its steps are short. A
line goes to descriptor 2 as C++ code writes it, past Python's own files.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

import paceline.numpy as pl

WORD = sys.argv[1]
RESTARTS = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
LAST = {"never": -1, "often": 20 + 10 * RESTARTS, "end": -1}.get(WORD)
if LAST is None:
    LAST = int(WORD)

step = 0
while True:
    print("x" * 20_000)
    with contextlib.suppress(OSError):
        os.write(2, b"from C++\n")
    if WORD == "end" and Path(sys.argv[2]).exists():
        break
    if step == LAST:
        raise ValueError("the loss is NaN")
    pl.step(step)
    step += 1
    time.sleep(0.002 if WORD == "often" else 0.02)
