"""A process's connection to the ledger of one data set: who it is, its leases, and its positions.

Loaders derive from `LeaseHolder` and decide how the leased ordinals are read.
"""

import json
import os
import time
from typing import Literal, Self, cast

from paceline._base import launch
from paceline._data import in_hand, lease_errors
from paceline._data.lease_position import made_in, whereabouts
from paceline._data.order import Json
from paceline._native import LeaseOpen, LeaseReader
from paceline._rank import progress

SCHEMA = "paceline.leases/1"
SLICE_SECONDS = 0.2  # seconds between two checks for signals while a call waits
_STAND_SECONDS = 0.5  # until a version is published without its position
_WORLDS_MAX = 2**22 - 1  # the low bits of a generation that an incarnation has room for

Resume = Literal["acks", "checkpoint"]


class LeaseHolder:
    """Holds leases on the data set `name`, and saves and restores its position."""

    marks_checkpoints = True  # a Checkpointer calls `mark` before each save

    def __init__(self, name: str, *, resume: Resume, ahead: int) -> None:
        self.name = name
        self._resume = resume
        self._ahead = ahead
        self._open = LeaseOpen()
        self._open.name = name
        self._open.follows_checkpoints = resume == "checkpoint"
        self._reader_or_none: LeaseReader | None = None
        self._pid = 0
        self._position: str | None = None
        self._stale = 0  # lost leases that were already reported

    def _show_ordinals(
        self, ordinals: list[tuple[int, int]], *, is_divisible: bool = False
    ) -> None:
        """Tell embedding tables which batch the loop works on."""
        late = "" if self._open.unit else "late"
        in_hand.begin(
            self,
            in_hand.Batch(
                data_set=self.name,
                ordinals=ordinals,
                rank=self._open.rank,
                incarnation=self._open.incarnation,
                obstacle="checkpoint" if self._resume == "checkpoint" else late,
                is_divisible=is_divisible,
            ),
        )

    # ---- what a loader adds ----

    def done(self) -> None:
        """Acknowledge what was handed out last."""
        raise NotImplementedError

    def _drop_all(self) -> None:
        """Forget all pieces of leases, because the ledger has them back."""
        raise NotImplementedError

    def _terms(self) -> Json:
        """What all ranks must agree on: the data and its order."""
        raise NotImplementedError

    def _fingerprint_now(self) -> object:
        raise NotImplementedError

    def _must_be_like(self, saved: object) -> None:
        """Raise DataError if the saved fingerprint is of other data."""
        raise NotImplementedError

    # ---- the ledger ----

    @property
    def _reader(self) -> LeaseReader:
        if self._reader_or_none is None:
            self._connect()
        if self._pid != os.getpid():
            raise lease_errors.of_another_process(self.name, self._pid, os.getpid())
        return cast("LeaseReader", self._reader_or_none)

    def _connect(self) -> None:
        socket = launch.lease_socket()
        if socket is None and progress.world_size() > 1:
            from paceline._checkpoint.private_keeper import find_leases

            socket = find_leases(self.name)
        if self.name in _names:
            raise lease_errors.two_loaders(self.name)
        self._pid = os.getpid()
        self._open.rank = progress.rank()
        self._open.world_size = progress.world_size()
        # Each start has its own generation, so that each may rewind to its checkpoint.
        generation = progress.generation() or launch.start_number()
        # Workers of a job with table servers restart alone, so they have no generation in common.
        self._open.generation = 0 if launch.is_worker() else generation
        # An incarnation has to be higher in every new process of this rank. It is made of the
        # world's number, which never restarts within a job, and of milliseconds. The generation
        # also has the master's term above that number; with the term 64 bits would not do.
        world = generation & _WORLDS_MAX
        self._open.incarnation = world << 42 | int(time.time() * 1000)
        self._reader_or_none = LeaseReader.open(socket or "", self._ahead, self._open)
        _names.add(self.name)
        if in_hand.is_wanted():
            in_hand.keep_stand(self.name, self._stand)

    def _stand(self) -> in_hand.Stand | None:
        what, losses, _begin, whole, text = self._reader.stand(_STAND_SECONDS)
        if what != "complete":
            self._refuse(what, text)
            return None
        position: Json = {"data_set": self.name}
        if self._open.is_stream:
            lines = (line.partition(" ") for line in text.splitlines())
            position["partitions"] = [
                {"name": name, "offset": int(offset)} for offset, _, name in lines]
            position["whole"] = whole
        else:
            parts = (part.partition("-") for part in text.split(",") if part)
            position["ranges"] = [
                [int(first), int(last or first) + 1] for first, _, last in parts]
        return in_hand.Stand(losses, position)

    def _refuse(self, what: str, text: str) -> None:
        if what == "fenced":
            raise lease_errors.fenced(self.name, self._open.rank)
        if what == "refused":
            raise lease_errors.of_ledger(self.name, text)

    def close(self) -> None:
        """Return the leases. A loader that is used again leases new ones."""
        if self._reader_or_none is not None and self._pid == os.getpid():
            self._reader_or_none.close()
            _names.discard(self.name)
            in_hand.keep_stand(self.name, None)
        self._reader_or_none = None
        self._drop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- with a checkpoint ----

    def mark(self, step: int) -> None:
        """Assign all samples up to the last batch to the checkpoint of `step`.

        `Checkpointer.save` calls this for each loader in the state. All ranks mark the same steps.
        """
        self._must_follow("mark")
        self.done()
        while True:
            what, _lease, _begin, _end, text = self._reader.mark(step, SLICE_SECONDS)
            if what == "complete":
                self._refuse_lost()
                self._position = text
                return
            self._refuse(what, text)

    def state_dict(self) -> Json:
        """The name of the last marked position. The ledger knows its ranges of samples."""
        self._must_follow("state_dict")
        ranges = ""
        if self._position is not None and launch.lease_socket() is None:
            ranges = self._reader.position_text(self._position)
        return {
            "schema": SCHEMA,
            "name": self.name,
            "position": self._position,
            "ranges": ranges,  # for a ledger that ends with this process
            "run": made_in(),  # the run directory whose ledger knows this position
            "order": self._terms(),
            "fingerprint": self._fingerprint_now(),
        }

    def load_state_dict(self, state: object) -> None:
        """Go to the checkpoint's position. Raises DataError if the data or its order changed."""
        self._must_follow("load_state_dict")
        saved = cast("Json", state) if isinstance(state, dict) else {}
        position = saved.get("position")
        if saved.get("schema") != SCHEMA or not isinstance(position, str):
            raise lease_errors.no_position(SCHEMA, state)
        self._must_be_like(saved.get("fingerprint"))
        was = cast("Json", order) if isinstance(order := saved.get("order"), dict) else {}
        if was.get("drawn", "") != self._terms().get("drawn", "") and "drawn" in was:
            raise lease_errors.other_order(self.name)
        reader = self._reader  # connects first, so that it is known whether ranks share a ledger
        wanted: str | None = whereabouts(self.name, position, saved)
        if launch.lease_socket() is None:
            reader.add_position(position, str(saved.get("ranges", "")))
        self._drop_all()
        self._position = position
        while True:
            what, _lease, _begin, _end, text = reader.rewind(wanted, SLICE_SECONDS)
            if what == "complete":
                self._stale = reader.counters[1]
                return
            wanted = None
            self._refuse(what, text)

    def _refuse_lost(self) -> None:
        """With checkpoints a lost lease is an error: another rank trains on its samples again."""
        if self._resume != "checkpoint":
            return
        stale = self._reader.counters[1]
        if stale > self._stale:
            self._stale = stale
            raise lease_errors.lost(self.name, self._open.rank)

    def _must_follow(self, call: str) -> None:
        if self._resume != "checkpoint":
            raise lease_errors.follows_none(self.name, call)


_names: set[str] = set()  # names that this process leases


def terms_text(terms: Json) -> str:
    """The terms as the ledger compares them."""
    return json.dumps(terms, sort_keys=True, separators=(",", ":"))
