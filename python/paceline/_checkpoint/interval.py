"""How often a step goes to storage and how many stay there, as users write it."""

from paceline._base import arguments, launch
from paceline._checkpoint.link import Fields

REPLICAS_MAX = 8
_MILLISECONDS_MAX = 10 * 365 * 86_400_000
KEEP_ALL = 1_000_000  # kKeepAll in model/checkpoint.h


def terms(
    *, keep: int, every: str | int | None, replicas: int | None = None, keeps_all: bool = False
) -> Fields:
    """The terms that the script asks for. The launcher's --ckpt-keep and --ckpt-every win.

    With `keeps_all` no checkpoint is ever removed, whatever `keep` is.
    """
    every_over, keep_over = launch.checkpoint_terms()
    kept = arguments.count("Checkpointer", "keep", keep, most=KEEP_ALL)
    if keeps_all:
        kept = KEEP_ALL
    elif keep_over is not None:
        is_number = keep_over.isascii() and keep_over.isdigit()
        asked_over: object = int(keep_over) if is_number else keep_over
        kept = arguments.count("PACELINE_CHECKPOINT_KEEP", "keep", asked_over, most=KEEP_ALL)
    asked: Fields = {}
    if replicas is not None:
        asked["replicas"] = arguments.count(
            "Checkpointer", "replicas", replicas, least=0, most=REPLICAS_MAX
        )
    interval = parse_every(every)
    if every_over is not None:
        interval = parse_every(every_over, where="PACELINE_CHECKPOINT_EVERY")
    return {"keep": kept, "every": interval, **asked}


def parse_every(every: str | int | None, *, where: str = "Checkpointer") -> Fields:
    """`None`: automatic. `100`, `"100 steps"`: steps. `"30s"`, `"5m"`, `"1h"`: times."""
    if every is None or every == "auto":
        return {}
    is_interval = isinstance(every, str) or arguments.whole(every) is not None
    text = str(every).strip() if is_interval else ""
    number, unit = text.rstrip("abcdefghijklmnopqrstuvwxyz ").strip(), ""
    unit = text[len(number) :].strip()
    scale = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
    try:
        if unit in ("", "step", "steps") and 0 < int(number) <= arguments.COUNT_MAX:
            return {"steps": int(number)}
        if unit in scale and 1 <= float(number) * scale[unit] <= _MILLISECONDS_MAX:
            return {"milliseconds": int(float(number) * scale[unit])}
    except ValueError:
        pass
    wanted = 'a number of steps above 0, or a text with "s", "m" or "h" of at most 10 years'
    fix = 'every=100, every="30s", or nothing for an automatic one'
    raise arguments.refuse(where, "every", every, wanted, fix)
