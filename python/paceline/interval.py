"""How often a step goes to storage and how many stay there, as people write it."""

from paceline import launch
from paceline.checkpoint_link import Fields
from paceline.plan import CheckpointError

REPLICAS_MAX = 8
KEEP_ALL = 1_000_000  # kKeepAll in model/checkpoint.h


def terms(
    *, keep: int, every: str | int | None, replicas: int | None = None, keeps_all: bool = False
) -> Fields:
    """What the script asks, unless the launcher's --ckpt-keep and --ckpt-every say otherwise.

    With `keeps_all` nothing is ever removed, whoever says how many checkpoints stay.
    """
    every_over, keep_over = launch.checkpoint_terms()
    if keeps_all:
        keep, keep_over = KEEP_ALL, None
    try:
        kept = keep if keep_over is None else int(keep_over)
    except ValueError:
        kept = 0
    if kept < 1:
        raise CheckpointError(
            what=f"keep={keep if keep_over is None else keep_over} would keep no checkpoint",
            where="Checkpointer" if keep_over is None else "PACELINE_CHECKPOINT_KEEP",
            why="the newest complete one always stays",
            fix="keep=1 or more",
        )
    if replicas is not None and not 0 <= replicas <= REPLICAS_MAX:
        raise CheckpointError(
            what=f"replicas={replicas} cannot be",
            where="Checkpointer",
            why=f"an image has 0 to {REPLICAS_MAX} copies on other hosts",
            fix="replicas=1, or leave it out: one copy where there is another host",
        )
    asked: Fields = {} if replicas is None else {"replicas": replicas}
    interval = parse_every(every if every_over is None else every_over)
    return {"keep": kept, "every": interval, **asked}


def parse_every(every: str | int | None) -> Fields:
    """`None` is automatic, `100` and `"100 steps"` are steps, `"30s"`, `"5m"`, `"1h"` are times."""
    if every is None or every == "auto":
        return {}
    text = str(every).strip()
    number, unit = text.rstrip("abcdefghijklmnopqrstuvwxyz ").strip(), ""
    unit = text[len(number) :].strip()
    scale = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
    try:
        if unit in ("", "step", "steps") and int(number) > 0:
            return {"steps": int(number)}
        if unit in scale and float(number) * scale[unit] >= 1:
            return {"milliseconds": int(float(number) * scale[unit])}
    except ValueError:
        pass
    raise CheckpointError(
        what=f"every={every!r} is no interval",
        where="Checkpointer",
        why='it is a number of steps, or a number with "s", "m" or "h"',
        fix='every=100, every="30s", or nothing for an automatic one',
    )
