"""torch's DataLoader with leased samples: see `paceline.torch.LeasedLoader`."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack, cast

import torch
from torch.utils.data import default_collate

from paceline._base import arguments
from paceline._data import leases as data_leases
from paceline._data.lease_holder import Resume
from paceline._data.lease_piece import Piece
from paceline._data.leases import Policy
from paceline._data.stream import Stream, refuse_reading
from paceline._data.then import OF_HISTORY, made_for
from paceline.integrations.elastic_loader import (
    Reading,
    make_loader,
    ordered,
    read_in_worker,
    split,
)

_FAILED = object()
_OF_LIVE = ("wait", "name", "resume", "deadline")


def _of_live(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a stream's loader, which reads in this process and has no DataLoader.

    Other arguments are those of a history before the stream.
    """
    size = arguments.count("LeasedLoader", "batch_size", options.get("batch_size", 1))
    return {
        **{key: value for key, value in options.items() if key in _OF_LIVE},
        "batch": size,
        "collate": options.get("collate_fn") or default_collate,
    }


@arguments.known(
    "LeasedLoader", more=(*_OF_LIVE, "batch_size", "collate_fn", *OF_HISTORY),
    hints={"batch": "batch_size=", "collate": "collate_fn="})
def _stream_loader(stream: Stream, **options: Any) -> Any:
    return made_for(LeasedLoader, stream, options, _of_live)


class _Batches:
    """The DataLoader's batch sampler: the leased samples, as lists of indices."""

    def __init__(self, next_batch: Callable[[], list[int] | None]) -> None:
        self._next_batch = next_batch

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._next_batch, None)


class _Options(Reading, total=False):
    """torch's arguments, and those of `paceline.data.LeasedLoader` under the same names."""

    name: str
    epochs: int
    resume: Resume
    lease: int
    ahead: int
    deadline: float
    failures: int
    bad_samples: Policy
    drop_last: bool
    uneven: bool


class LeasedLoader(data_leases.LeasedLoader):
    """A DataLoader for asynchronous work: ranks lease what they read, and each sample counts once.

    loader = LeasedLoader(ElasticDataset(dataset, seed=7), name="train", batch_size=64,
                          num_workers=4)

    A batch counts when the loop comes back for the next one, not when it was read ahead. This
    process holds the leases; DataLoader's workers only read. If a batch cannot be read, its samples
    are tried again in smaller leases.

    Args:
        data: an `ElasticDataset` or `ElasticMixture`.
        batch_size: samples of a batch; fewer where a lease ends and no other samples are free.
        name: this and `epochs`, `resume`, `lease`, `ahead`, `deadline`, `failures`, `bad_samples`,
            `drop_last` and `uneven` are those of `paceline.data.LeasedLoader`.
        num_workers: this and the other arguments are those of torch's DataLoader.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: the data cannot be leased in this way.
    """

    def __new__(cls, data: Any, **options: Any) -> Any:
        if isinstance(data, Stream):
            refuse_reading(options, Reading.__annotations__.keys() - {"collate_fn"})
            return _stream_loader(data, **options)
        return made_for(cls, data, options, _of_live) or object.__new__(cls)

    @arguments.known(
        "LeasedLoader",
        more=_Options.__annotations__,
        hints={**arguments.OF_DATA_SETS, "batch": "batch_size="},
    )
    def __init__(self, data: Any, *, batch_size: int = 1, **options: Unpack[_Options]) -> None:
        reading, leases = split(options)
        size = arguments.count("LeasedLoader", "batch_size", batch_size)
        super().__init__(ordered(data), batch=size, **leases)
        self._restores = 0
        self._chance = torch.Generator()  # seeds workers; the script's generator is not used
        self._ahead_pieces: deque[list[Piece]] = deque()  # handed to the DataLoader, in order
        self._loader = make_loader(
            "LeasedLoader",
            self._records,
            batch_sampler=_Batches(self._next_indices),
            generator=self._chance,
            **reading,
        )

    def _next_indices(self) -> list[int] | None:
        # Without waiting: batches that were handed out but do not count yet may be all that is
        # left.
        pieces = self._next_batch(self.batch or 1, is_patient=False)
        if pieces is None:
            return None
        self._ahead_pieces.append(pieces)
        return [index for piece in pieces for index in self._indices(piece)]

    def _iterate(self, *, is_patient: bool = True) -> Iterator[Any]:
        # Each pass of the DataLoader lasts as long as samples are free without waiting.
        size = self.batch or 1
        while (first := self._next_batch(size, is_patient=is_patient)) is not None:
            self._again.appendleft(first)
            try:
                yield from self._pass()
            finally:
                kept = [[p for p in ahead if p.lease not in self._given_up]
                        for ahead in self._ahead_pieces]
                self._again.extendleft(pieces for pieces in reversed(kept) if pieces)
                self._ahead_pieces.clear()
                self._given_up.clear()
        if is_patient:
            self._finish()

    def _pass(self) -> Iterator[Any]:
        restores = self._restores
        batches = iter(self._loader)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:
                if not self._ahead_pieces:
                    raise
                # The traceback's frames hold the iterator, whose workers must end before the next
                # pass.
                error.__traceback__ = None
                batch = _FAILED
            pieces = self._ahead_pieces.popleft()
            kept = [piece for piece in pieces if piece.lease not in self._given_up]
            if len(kept) < len(pieces):
                pieces, batch = kept, _FAILED  # another worker reads the others now
            while batch is _FAILED and pieces and not (self._is_even and self._given_up):
                # Read the samples here, one by one, to find the bad one.
                try:
                    batch = self._collated(self._read(pieces))
                except Exception as error:
                    pieces = self._fail(pieces, error)
            if batch is _FAILED and self._is_even:
                # The read-ahead is cut anew, so that each rank has equally many whole batches.
                self._put_back(pieces)
                return
            if not pieces:
                continue
            yield from self._hand_out(batch, pieces)
            if self._restores != restores:
                return  # the read-ahead is from before the restore

    def _put_back(self, pieces: list[Piece]) -> None:
        self._ahead_pieces.appendleft(pieces)  # all of them go back at the end of the pass

    def _collated(self, samples: list[Any]) -> Any:
        return cast("Any", self._loader).collate_fn(samples)

    def _digests(self, places: Sequence[int]) -> list[str]:
        return read_in_worker(self._loader, self._records, places)

    def load_state_dict(self, state: object) -> None:
        super().load_state_dict(state)
        self._ahead_pieces.clear()
        self._restores += 1
