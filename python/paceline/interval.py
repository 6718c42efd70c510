"""How often a step goes to storage, as people write it."""

from paceline.checkpoint_link import Fields
from paceline.plan import CheckpointError


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
