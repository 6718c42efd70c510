"""The end of a planning run: `parallelize` writes the model's summary and ends the process."""

import os

PLANNING = "PACELINE_PLANNING"


def end_with(summary: str) -> None:
    """In a planning run: writes the summary and ends the process with 0. Else does nothing."""
    path = os.environ.get(PLANNING)
    if not path:
        return
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(summary)
    os.replace(temporary, path)
    raise SystemExit(0)
