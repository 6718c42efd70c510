"""The binary under test and how to ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Of a command, with the imports and jobs that it starts. Only one that hangs reaches it.
DEADLINE_S = 600.0


def find_binary() -> str:
    named = os.environ.get("PACELINE_BINARY")
    places = [
        Path(named) if named else None,
        Path(sys.executable).parent / "paceline",
        *(ROOT / "build" / kind / "src/paceline/cli/paceline" for kind in ("release", "dev")),
    ]
    for place in places:
        if place is not None and os.access(place, os.X_OK):
            return str(place)
    pytest.fail("no paceline binary: run `make build`, or set PACELINE_BINARY")


def paceline(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "PACELINE_"))}
    return subprocess.run(
        [find_binary(), *args],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=clean | (env or {}),
        check=False,
    )
