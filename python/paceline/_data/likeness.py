"""Checks that a loader's data is the checkpoint's data; if asked, by the values of records.

`ElasticDataset(…, fingerprint="records")` also compares four records. They are read where the
loader reads: in a process like its workers, which ends before the workers start, or in the rank if
there are no workers. The rank makes no other child, because a child would share the positions of
its open files, its connections and its locks.

A record may be read through a random transform. So a record is noted only if three reads are equal,
and it counts as changed only if 16 further reads all give one other value.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from paceline._data.fingerprint import differences, digest, kept_chance
from paceline._data.order import Json, Ordered
from paceline._data.sampler_order import seed_all
from paceline.errors import DataError

# Returns the digests of these records, in order; "" for a record that cannot be read.
Read = Callable[[Sequence[int]], list[str]]

_KEPT_READS = 3
_REFUSAL_READS = 16


class Likeness:
    """The fingerprint of one loader's data: `Likeness(data, read).changes_since(saved)`."""

    def __init__(self, data: Ordered, read: Read) -> None:
        self._data = data
        self._read = read
        self._found: Json | None = None

    def now(self) -> Json:
        """The fingerprint as plain values. The first call reads the records."""
        if self._found is None:
            found = self._data.fingerprint()
            if places := self._probes():
                found = {**found, "records": self._records(places)}
            self._found = found
        return self._found

    def before_workers(self) -> None:
        """Called before the loader starts its workers: reads the records first."""
        if self._probes():
            self.now()

    def must_be(self, saved: object, where: str) -> None:
        """Raise if the data differs from `saved`, the result of an earlier `now()`."""
        was = cast("Json", saved) if isinstance(saved, dict) else {}
        changes = differences(was, self.now())
        if any(one.startswith("record ") for one in changes):
            changes = differences(self._without_random(was), self.now())
        if not changes:
            return
        anew = "leave the loader out of the state to start this data from its first sample"
        fix = f"use the data as it was, or {anew}"
        if was.get("samples") == self.now().get("samples"):
            fix = (
                "use the data as it was. If the samples are still the same, as in files that "
                "were packed again, give this data set (ElasticDataset, wrap or shards) "
                f"fingerprint=False: then only its length is compared. Or {anew}"
            )
        raise DataError(
            what="the data changed since the checkpoint was saved",
            where=where,
            why="; ".join(changes[:4]),
            fix=fix,
        )

    def _probes(self) -> list[int]:
        return cast("list[int]", getattr(self._data, "probes", list)())

    def _records(self, places: Sequence[int]) -> dict[str, object]:
        read = self._read([place for place in places for _ in range(_KEPT_READS)])
        found: dict[str, object] = {}
        for number, place in enumerate(places):
            several = set(read[number * _KEPT_READS : (number + 1) * _KEPT_READS])
            if len(several) == 1 and "" not in several:
                found[str(place)] = several.pop()
        return found

    def _without_random(self, saved: Json) -> Json:
        """`saved` without records that vary between reads or cannot be read now."""
        was = cast("Mapping[str, str]", saved["records"])
        is_ = cast("Mapping[str, str]", self.now()["records"])
        doubtful = [name for name in was if name.isdigit() and is_.get(name) != was[name]]
        count = self._data.fingerprint().get("samples")
        doubtful = [name for name in doubtful if int(name) < cast("int", count)]
        read = self._read([int(name) for name in doubtful for _ in range(_REFUSAL_READS)])
        left = dict(was)
        for number, name in enumerate(doubtful):
            several = set(read[number * _REFUSAL_READS : (number + 1) * _REFUSAL_READS])
            several |= {is_[name]} if name in is_ else set()
            if len(several) > 1 or "" in several or was[name] in several:
                del left[name]
        return {**saved, "records": left}


def read_here(records: Any, places: Sequence[int]) -> list[str]:
    """The digests, read in this process. The script's random generators stay unchanged."""
    with kept_chance():
        # With fresh random numbers, so that a random transform gives another value.
        seed_all(os.urandom(16).hex())
        return [digest_of(records, place) for place in places]


def digest_of(records: Any, place: int) -> str:
    """`digest` of a record; "" if it cannot be read."""
    try:
        return digest(records[place])
    except Exception:
        return ""
