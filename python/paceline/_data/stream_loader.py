"""Samples without indices: a stream. A restored position is reached by skipping samples."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from typing import Any, cast

from paceline._base import arguments
from paceline._data.agreement import Agreement, Differs, disagreement
from paceline._data.fingerprint import digest
from paceline._data.loader import rank_and_size
from paceline._data.order import Json
from paceline._data.position import SCHEMA, checked_state
from paceline._native import cut_evenly
from paceline.errors import DataError

_COMPARED_STEPS = 4  # steps of each pass that ranks compare, from its begin
_PLACES = 2**40  # factor that puts epoch and sample number into one place for reports


class StreamLoader:
    """Cuts a stream into steps and shares: any iterable that gives a new iterator for each epoch.

    loader = StreamLoader(records, global_batch=256, drop_last=True)
    for batch in loader: ...

    Every rank reads all samples and keeps its share of each step. A restored rank reads the
    consumed samples again. Use `ElasticLoader` if samples have indices. The stream must yield the
    same samples in the same order on every rank and in every run. Samples are read in this process.

    Ranks report a hash of the first steps of an epoch and go on without waiting. If the hashes
    differ, all ranks raise at a later step.

    Args:
        stream: an iterable with a new iterator for each epoch; `set_epoch` is called if it has it.
        global_batch: samples of one step over all ranks.
        collate: makes a batch of a list of samples. None: a batch is that list.
        drop_last: True: leave out the last samples of an epoch if they fill no whole step.
        even_steps: False: a rank without a share in a step skips it (evaluation).
        rank: the rank in the data parallel group. None: in the world.
        world_size: the size of the data parallel group. None: of the world.
        name: the stream's name, compared when a position is restored.
        identity: what to hash of a sample, if a random transform gives each rank other values:
            `identity=lambda sample: sample["id"]`.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: the stream cannot be shared in this way; or, while it is read, ranks read
            different streams, or the stream changed since the checkpoint.
    """

    @arguments.known("StreamLoader", hints=arguments.OF_DATA_SETS)
    def __init__(
        self,
        stream: Iterable[Any],
        *,
        global_batch: int,
        collate: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        even_steps: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        name: str = "",
        identity: Callable[[Any], object] | None = None,
    ) -> None:
        where = "StreamLoader"
        if not isinstance(stream, Iterable):
            wanted = "an iterable, with a new iterator for each epoch"
            raise arguments.refuse(where, "stream", stream, wanted, "give a class with __iter__")
        self._stream = stream
        self._collate = arguments.callback(where, "collate", collate)
        self._name = arguments.text(where, "name", name, least=0, bytes_max=200)
        self.global_batch = arguments.count(where, "global_batch", global_batch)
        self.rank, self.world_size = rank_and_size(where, rank, world_size)
        self._drop_last = arguments.flag(where, "drop_last", drop_last)
        arguments.flag(where, "even_steps", even_steps)
        self.epoch = 0
        self.consumed = 0
        self.weight = 1.0  # weight of the last batch; see `ElasticLoader.weight`
        self._turn = 0
        self._identity = arguments.callback(where, "identity", identity)
        self._head: Json | None = None  # count and hash of the current epoch's first samples
        about = f"steps of {self.global_batch} samples and {self.world_size} ranks"
        self._agreement = Agreement(
            "stream", name=self._name, about=about, rank=self.rank, world_size=self.world_size
        )
        why = ""
        if iter(stream) is stream:
            why = "it is an iterator, so it has no second epoch and cannot be read again"
        elif self.rank >= self.world_size:
            why = f"rank {self.rank} is not in a world of {self.world_size}"
        elif even_steps and self.global_batch < self.world_size:
            why = f"a step of {global_batch} samples is too small for {self.world_size} ranks"
        elif even_steps and not drop_last and self.world_size > 1:
            why = "its length is not known, so its last step may have fewer samples than ranks"
        if why:
            raise DataError(
                what="this stream cannot be cut among the ranks",
                where="StreamLoader",
                why=why,
                fix="give an iterable with a new iterator for each epoch, a global_batch of "
                    "at least the world size, and drop_last=True (or even_steps=False if the "
                    "loop has no collectives)",
            )

    def __iter__(self) -> Iterator[Any]:
        self._turn += 1
        return self._iterate(self._turn)

    def _iterate(self, turn: int) -> Iterator[Any]:
        told = getattr(self._stream, "set_epoch", None)
        if callable(told):
            told(self.epoch)
        source = iter(self._stream)
        self._skip(source)
        for number in count():
            step = list(islice(source, self.global_batch))
            if not step or (self._drop_last and len(step) < self.global_batch):
                break
            if number < _COMPARED_STEPS:
                self._report(step)
            else:
                self._look()
            begin, end = cut_evenly(0, len(step), self.rank, self.world_size)
            own = step[begin:end]
            if turn != self._turn:
                raise DataError(
                    what="two iterators go through one loader",
                    where="StreamLoader",
                    why="each would get samples that the other one skips",
                    fix="make a loader for each loop, and begin a new `for` after a restore",
                )
            self.consumed += len(step)
            self.weight = len(own) * self.world_size / len(step)
            if own:
                yield own if self._collate is None else self._collate(own)
        self._look()
        self.epoch, self.consumed, self._head = self.epoch + 1, 0, None

    def _skip(self, source: Iterator[Any]) -> None:
        """Read the consumed samples again. Raise if their hash is not the saved one."""
        head = self._head
        size = min(cast("int", head["samples"]), self.consumed) if head is not None else 0
        first = list(islice(source, size))
        skipped = len(first) + sum(1 for _ in islice(source, self.consumed - len(first)))
        why = ""
        if skipped < self.consumed:
            why = f"{self.consumed} samples were consumed, and the stream has only {skipped}"
        elif head is not None and size == head["samples"] and self._hash(first) != head["hash"]:
            why = f"the first {size} samples of epoch {self.epoch} differ"
        if why:
            raise DataError(
                what="the stream changed since the checkpoint was saved",
                where=self._name or "StreamLoader",
                why=why,
                fix="use the stream as it was, with the same samples in the same order in "
                    "each run, for example with a seeded shuffle; give identity= if random "
                    "transforms change samples; or leave the loader out of the state to start "
                    "from the first sample",
            )

    def _hash(self, samples: list[Any]) -> str:
        identity = self._identity
        return digest(samples if identity is None else [identity(one) for one in samples])

    def _report(self, step: list[Any]) -> None:
        found = self._hash(step)
        if self.consumed == 0:
            self._head = {"samples": len(step), "hash": found}
        with self._agreed():
            self._agreement.say(self.epoch * _PLACES + self.consumed, found)

    def _look(self) -> None:
        with self._agreed():
            self._agreement.look()

    @contextmanager
    def _agreed(self) -> Iterator[None]:
        try:
            yield
        except Differs as differs:
            epoch, place = divmod(differs.place, _PLACES)
            raise disagreement(
                differs,
                what="ranks read different streams",
                where=f"{self._name or 'StreamLoader'}, epoch {epoch}, sample {place}",
                why="read different samples there; every rank has to read the whole stream in "
                    "the same order, and keeps its share of each step",
                fix="do not split the stream among ranks (no split_dataset_by_node, "
                    "nodesplitter=None), and shuffle it by the same seed on all ranks; give "
                    "identity= if random transforms change samples, and another name= to "
                    "another stream",
            ) from None

    def state_dict(self) -> Json:
        """As `ElasticLoader.state_dict`. Streams are told apart by their name alone."""
        state: Json = {
            "schema": SCHEMA,
            "epoch": self.epoch,
            "consumed": self.consumed,
            "global_batch": self.global_batch,
            "order": {"shuffle": "stream", "name": self._name},
            "fingerprint": {},
        }
        if self._head is not None:
            state["head"] = self._head
        return state

    def load_state_dict(self, state: object) -> None:
        """Continue from a saved position, at any world size: the next iterator skips to it."""
        self._turn += 1
        saved = checked_state(state)
        if saved["order"] != self.state_dict()["order"]:
            raise DataError(
                what="the checkpoint's position is of other data",
                where=self._name or "StreamLoader",
                why=f"it was {saved['order']}",
                fix="use the same stream under the same name",
            )
        self.epoch, self.consumed = cast("int", saved["epoch"]), cast("int", saved["consumed"])
        head = saved.get("head")
        fields = cast("Json", head) if isinstance(head, dict) else {}
        self._head = fields if isinstance(fields.get("samples"), int) else None
