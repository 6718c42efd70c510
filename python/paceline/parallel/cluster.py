"""The cluster that a plan is chosen for, as a text; see docs/formats/parallel_plan.md."""

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

SCHEMA = "paceline.cluster/1"


@dataclass(frozen=True, slots=True)
class Link:
    """What a message between two ranks costs."""

    seconds: float  # without content
    bandwidth: float  # bytes a second


@dataclass(frozen=True, slots=True)
class Measured:
    """What programs reach on the device of one rank."""

    flops: float
    bandwidth: float  # bytes a second of its memory
    launch: float  # seconds of a layer beside its arithmetic
    memory: int  # bytes that a job may use


# Where nothing was measured. No decision depends on these: such a text says who is there.
_ANY = Measured(flops=1e12, bandwidth=1e11, launch=0.0, memory=1 << 50)
_ANY_LINK = Link(1e-5, 1e9)


def text_of(
    devices: list[list[Any]],
    rows: list[Measured],
    *,
    node: int,
    link: Link | None,
    source: str,
    overlap: float = 1.0,
) -> str:
    """The cluster of those ranks. Devices of one name count as equal, by the median of their ranks.

    `overlap` is the part of an exchange that passes hide: 0 where both need the same cores.
    `devices` are names and counts in the order of the ranks, `rows` what each rank measured.
    """
    names = [name for name, count in devices for _ in range(count)]
    found: dict[str, list[Measured]] = {}
    for name, row in zip(names, rows, strict=True):
        found.setdefault(name, []).append(row)
    types = [
        {
            "name": name,
            "flops": median(row.flops for row in own),
            "bandwidth": median(row.bandwidth for row in own),
            "launch": median(row.launch for row in own),
            "memory": min(row.memory for row in own),
            "source": source,
        }
        for name, own in found.items()
    ]
    ends = link or _ANY_LINK
    told = {"seconds": ends.seconds, "bandwidth": ends.bandwidth}
    fields = {
        "schema": SCHEMA,
        "types": types,
        "groups": [{"type": name, "count": count} for name, count in devices],
        "node": node,
        "inner": told,
        "outer": told,
        "overlap": overlap,
    }
    return json.dumps(fields, separators=(",", ":"))


def without_numbers(devices: list[list[Any]]) -> str:
    """The cluster of those devices for a check of a plan that has been chosen already."""
    count = sum(count for _, count in devices)
    return text_of(devices, [_ANY] * count, node=1, link=None, source="not measured")
