"""The cluster that a plan is chosen for, as a text; see docs/formats/parallel_plan.md."""

import json
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

SCHEMA = "paceline.cluster/1"


@dataclass(frozen=True, slots=True)
class Link:
    """The cost of a message between two ranks."""

    seconds: float  # of an empty message
    bandwidth: float  # bytes a second


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured constants of one rank's device."""

    flops: float
    bandwidth: float  # bytes a second of its memory
    launch: float  # seconds of a layer in addition to its arithmetic
    memory: int  # bytes that a job may use


# Numbers for a cluster that was not measured. No decision depends on them.
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
    """The cluster of these ranks, as a text. Devices of one name count as equal, with the median of
    their numbers.

    `overlap` is the part of an exchange that passes can hide; 0 if both need the same cores.
    `devices` are names and counts in the order of the ranks, `rows` the numbers of each rank.
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


def without_numbers(devices: list[list[Any]], memory: dict[str, int] | None = None) -> str:
    """The cluster of these devices without measured numbers, to check a plan that is chosen.

    `memory` has the bytes of a device by its name; without it there is room for anything.
    """
    found = memory or {}
    rows = [replace(_ANY, memory=found.get(name, _ANY.memory)) for name, count in devices
            for _ in range(count)]  # fmt: skip
    return text_of(devices, rows, node=1, link=None, source="not measured")
