"""Whether the data of a loader is that of its checkpoint; with records, where they are asked for.

`ElasticDataset(…, fingerprint="records")` compares the values of four records as well. They are
read where the loader reads: in a process that is made as its workers are and ends before they
start, or in the rank itself if the loader has no workers. The rank makes no other child, because
a child would share the places of its open files, its connections and its locks.

A record may be read through a random transform. So it is kept if three reads are equal, and it
counts as changed only if 16 further reads all give one other value.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from paceline._data.fingerprint import differences, digest, kept_chance
from paceline._data.order import Json, Ordered
from paceline._data.sampler_order import seed_all
from paceline.errors import DataError

# The digests of these records, in order; "" for one that cannot be read.
Read = Callable[[Sequence[int]], list[str]]

_KEPT_READS = 3
_REFUSAL_READS = 16


class Likeness:
    """What the data of one loader looks like: `Likeness(data, read).changes_since(saved)`."""

    def __init__(self, data: Ordered, read: Read) -> None:
        self._data = data
        self._read = read
        self._found: Json | None = None

    def now(self) -> Json:
        """Plain values. Records are read in the first call."""
        if self._found is None:
            found = self._data.fingerprint()
            if places := self._probes():
                found = {**found, "records": self._records(places)}
            self._found = found
        return self._found

    def before_workers(self) -> None:
        """The loader starts its workers next: what has to be read is read before."""
        if self._probes():
            self.now()

    def must_be(self, saved: object, where: str) -> None:
        """Raise when the data is not that of `saved`, which is an earlier `now()`."""
        was = cast("Json", saved) if isinstance(saved, dict) else {}
        changes = differences(was, self.now())
        if any(one.startswith("record ") for one in changes):
            changes = differences(self._without_random(was), self.now())
        if not changes:
            return
        anew = "leave the loader out of the state to begin anew with this data"
        fix = f"the data as it was; or {anew}"
        if was.get("samples") == self.now().get("samples"):
            fix = (
                "the data as it was. Where the samples are the same ones all the same, as in files "
                "that were packed again, fingerprint=False with this data set (ElasticDataset, "
                f"wrap or shards) compares its length alone. Or {anew}"
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
        """`saved` without the records that have several values, or that cannot be read now."""
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
    """The digests, read in this process. The script's generators are as before afterwards."""
    with kept_chance():
        # By chance of its own, so that a random transform shows itself.
        seed_all(os.urandom(16).hex())
        return [digest_of(records, place) for place in places]


def digest_of(records: Any, place: int) -> str:
    """`digest` of a record; "" if it cannot be read."""
    try:
        return digest(records[place])
    except Exception:
        return ""
