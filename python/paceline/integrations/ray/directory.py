"""The directory of an actor on its host. `paceline clean` finds it by its mark."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paceline._base.processes import start_time

MARK = "ray.json"


def make_directory(job: str, part: str) -> Path:
    """Make a directory that only this user can read, below $TMPDIR or /tmp.

    Args:
        job: the job's name.
        part: "adapter", "master 2" or "node0 1". The mark names it, and this process.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"paceline-{job}-"))
    mark = {"schema": "paceline.ray/1", "job": job, "part": part,
            "actor": {"pid": os.getpid(), "start_time": start_time(os.getpid())}}
    (directory / MARK).write_text(json.dumps(mark))
    return directory


def write_secrets(directory: Path, secrets: Mapping[str, bytes]) -> None:
    """Write each secret into a new file of mode 0600 in `directory`.

    The mode is given when the file is made, so no other user can read it even for a moment.
    """
    for name, value in secrets.items():
        file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(value)
