"""The framework-independent part of a loader: position, shares of the ranks, state."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from paceline._base import arguments
from paceline._base.wording import described
from paceline._data.agreement import Agreement, Differs, disagreement
from paceline._data.cut import CutBySpeed, Gather, SpeedCutter
from paceline._data.fingerprint import digest
from paceline._data.likeness import Likeness, read_here
from paceline._data.order import Json, Ordered
from paceline._data.position import SCHEMA, checked_state
from paceline._native import BatchCut, cut_evenly
from paceline._rank import progress
from paceline.errors import DataError

_WHERE = "ElasticLoader"


@dataclass(frozen=True, slots=True)
class Share:
    """What a rank reads at once: a part of its share of a step, in ordinals of the epoch."""

    epoch: int
    step: tuple[int, int]  # ordinals of the whole step, over all ranks
    begin: int  # of this part, an ordinal
    end: int
    ends_step: bool  # no further part of this step follows on this rank
    part: int  # the part's number among the parts of all ranks in the step
    weight: float  # factor of its mean loss; the mean over ranks is then that over the step
    fraction: float  # samples of this part ÷ samples of the step
    indices: list[int]  # indices into the data set, in reading order


class Steps(TypedDict, total=False):
    """How a loader cuts an epoch into steps and a step among ranks. All keys are optional."""

    micro_batch: int | None  # samples of a rank at once, at most; None: its whole share
    drop_last: bool  # leave out the samples of an epoch that fill no whole step; False
    even_steps: bool  # False: a rank without a share in the last step skips it (evaluation)
    cut: CutBySpeed | None  # shares by measured speed; None: even ones
    rank: int | None  # rank in the data parallel group; None: in the world
    world_size: int | None


class BaseLoader(ABC):
    """Iterates over the rest of the current epoch; then the next epoch is current.

    A batch counts when it was yielded, not when it was read ahead. `state_dict` holds the consumed
    position as two numbers. A step of which only some parts are done does not count, because no
    checkpoint holds its gradients.
    """

    def __init__(
        self,
        data: Ordered,
        *,
        global_batch: int | None,
        virtual_ranks: int | None = None,
        micro_batch: int | None = None,
        drop_last: bool = False,
        even_steps: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        cut: CutBySpeed | None = None,
    ) -> None:
        must_be_ordered(_WHERE, data)
        self.data = data
        self.rank, self.world_size = rank_and_size(_WHERE, rank, world_size)
        if self.rank >= self.world_size:
            raise DataError(
                what=f"rank {self.rank} is not in a world of {self.world_size}",
                where="ElasticLoader",
                why="ranks are counted from 0",
                fix="give the rank and the world_size of the data parallel group",
            )
        self._ends: Callable[[int], list[int] | None] = getattr(data, "step_ends", _no_ends)
        sizes = self._ends(0)
        if sizes is not None and global_batch is not None:
            raise DataError(
                what=f"global_batch={global_batch} is not allowed",
                where="ElasticLoader",
                why="the batch sampler of the data decides how large steps are",
                fix="leave it out",
            )
        # With a batch sampler, the first step's size stands for all.
        batch = sizes[0] if sizes else global_batch
        self.global_batch = arguments.count(_WHERE, "global_batch", batch)
        self.micro_batch = micro_batch
        self.virtual_ranks = _virtual_ranks(virtual_ranks, micro_batch, self.world_size)
        self._cutters = self.virtual_ranks or self.world_size
        self._drops_last = arguments.flag(_WHERE, "drop_last", drop_last)
        arguments.flag(_WHERE, "even_steps", even_steps)
        if cut is not None and not isinstance(cast("object", cut), CutBySpeed):
            raise arguments.refuse(_WHERE, "cut", cut, "a CutBySpeed", "cut=CutBySpeed()")
        self._cut = self._make_cut(micro_batch, drop_last=drop_last, even_steps=even_steps)
        self.by_speed = self._make_cutter(cut, micro_batch)
        self._gather: Gather = lambda rows: [rows]
        if self.by_speed is not None and cut is not None:
            self._gather = cut.gather or self._own_gather()
        self._likeness = Likeness(data, self._digests)
        about = f"{data.samples} samples and {self.world_size} ranks"
        self._agreement = Agreement(
            "loader", name=data.name, about=about, rank=self.rank, world_size=self.world_size
        )
        self.epoch = 0
        self.consumed = 0  # yielded ordinals of the epoch, in whole steps
        self.current: Share | None = None  # the share that was yielded last
        self._turn = 0  # number of the newest iterator; older ones raise
        self._is_read_here = False  # the newest batch of the epoch was yielded by this process

    def _make_cut(self, micro_batch: int | None, *, drop_last: bool, even_steps: bool) -> BatchCut:
        self._is_even = even_steps
        sizes = self._ends(0)
        for begin, end in _ranges(sizes or []):
            self._must_be_shared(begin, end)
        micro = 0 if micro_batch is None else arguments.count(_WHERE, "micro_batch", micro_batch)
        try:
            # With steps of various sizes, the last step was checked above.
            is_even = even_steps and sizes is None
            return BatchCut(
                self.data.samples, self.global_batch, self._cutters, micro, drop_last, is_even
            )
        except ValueError as error:
            raise self._cut_error(error) from error

    def _make_cutter(self, cut: CutBySpeed | None, micro_batch: int | None) -> SpeedCutter | None:
        if cut is None:
            return None
        why = ""
        if self.virtual_ranks:
            why = "virtual ranks have even shares, or their sums would not be the same bits"
        elif not self._is_even:
            why = "with even_steps=False some ranks skip a step, but all exchange their times"
        elif self._ends(0) is not None:
            why = "the batch sampler of the data makes steps of any size"
        if why:
            raise DataError(
                what="steps cannot be cut by speed", where="ElasticLoader", why=why, fix="cut=None"
            )
        if self.world_size == 1:
            return None
        return SpeedCutter(
            cut,
            global_batch=self.global_batch,
            world_size=self.world_size,
            micro_batch=micro_batch or 0,
        )

    def _own_gather(self) -> Gather:
        raise DataError(
            what="the ranks cannot exchange their times",
            where="CutBySpeed",
            why="without torch the loader has no communication between ranks",
            fix="give a function: CutBySpeed(gather=comm.allgather), as of mpi4py",
        )

    def _cut_error(self, error: ValueError) -> DataError:
        return DataError(
            what="the steps cannot be cut among the ranks",
            where=f"{self.data.samples} samples, global_batch={self.global_batch}, "
            f"{self._cutters} {'virtual ' if self.virtual_ranks else ''}ranks",
            why=str(error),
            fix=f"another global_batch{'' if self._drops_last else ', or drop_last=True'}; for "
            "evaluation without collectives even_steps=False",
        )

    # ---- what a training loop asks ----

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch: steps times the parts of each."""
        if self._ends(self.epoch) is not None:
            return sum(self._parts(step, (self.epoch, 0)) for step in self._steps(self.epoch, 0))
        steps = self._cut.steps_from(0)
        place = (self.epoch, self.consumed)
        last = self._cut.step_at((steps - 1) * self.global_batch)
        return (steps - 1) * self._parts(self._cut.step_at(0), place) + self._parts(last, place)

    @property
    def weight(self) -> float:
        """The factor for the loss of the last batch: 1.0 unless shares are uneven or in parts.

        Gradients that are averaged over the ranks are then the mean over the step's samples.
        """
        return self.current.weight if self.current else 1.0

    @property
    def shares(self) -> list[int]:
        """How many samples each rank has in the next whole step."""
        if self.by_speed is not None:
            return list(self.by_speed.shares_at((self.epoch, self.consumed), self.global_batch))
        cuts = [cut_evenly(0, self.global_batch, r, self._cutters) for r in range(self._cutters)]
        each = self._cutters // self.world_size
        sizes = [end - begin for begin, end in cuts]
        return [sum(sizes[r * each : (r + 1) * each]) for r in range(self.world_size)]

    def worked(self) -> None:
        """Report that this rank's own work for the step is done, and only waiting follows.

        Needed for cuts by speed only. The last call of a step counts.
        """
        if self.by_speed is not None:
            self.by_speed.worked()

    @property
    def ends_step(self) -> bool:
        """Whether the last batch was this rank's last one of the step: time for the optimizer."""
        return self.current.ends_step if self.current else True

    @property
    def indices(self) -> list[int]:
        """The samples of the last batch, as indices of the data set."""
        return self.current.indices if self.current else []

    def __iter__(self) -> Iterator[Any]:
        self._turn += 1
        return self._iterate(self._turn)

    def _iterate(self, turn: int) -> Iterator[Any]:
        ahead: deque[Share] = deque()
        reached = (self.epoch, self.consumed)

        def shares() -> Iterator[Share]:
            nonlocal reached
            for share in self._shares(self.epoch, self.consumed):
                ahead.append(share)
                reached = (share.epoch, share.step[1])
                yield share

        if self._is_read_here:
            self.leave_read_epoch()
        if self.by_speed is not None:
            self.by_speed.pause()
        progress.shares_batch()
        self._likeness.before_workers()
        with self._agreed():
            self._agreement.say(self.epoch, self._read_order())
        for batch in self._read(shares()):
            self._must_be_newest(turn)
            with self._agreed():
                self._agreement.look()
            share = ahead.popleft()
            self.current = share
            if share.ends_step:
                self.consumed = share.step[1]
            self._is_read_here = True
            yield batch
            if self.by_speed is not None and share.ends_step and turn == self._turn:
                self._step_ended(self.by_speed, share, reached)
        self._must_be_newest(turn)
        # A step counts even if this rank has no share in it.
        self.epoch, self.consumed = self.epoch + 1, 0

    def leave_read_epoch(self) -> None:
        """Begin the next epoch, if all batches of the current one were read.

        A trainer that counts `len(loader)` batches does not ask for the end of the epoch, and its
        next iterator is for the next epoch. After a restore only the trainer's adapter knows that.
        """
        is_over = next(self._steps(self.epoch, self.consumed), None) is None
        if self.consumed > 0 and is_over:
            self.epoch, self.consumed = self.epoch + 1, 0

    def _read_order(self) -> str:
        """16 digits of the terms and order of the current epoch. They must agree on all ranks."""
        drawn = self._of_sampler("drawn", self.epoch) or ""
        return digest([self.data.terms(), drawn, self.global_batch, self._drops_last])

    @contextmanager
    def _agreed(self) -> Iterator[None]:
        try:
            yield
        except Differs as differs:
            raise disagreement(
                differs,
                what="ranks read this data in different orders",
                where=f"the data set {self.data.name or 'of this loader'}, epoch {differs.place}",
                why="differ in the sampler's order, the seed, global_batch or the data, so "
                    "samples would be lost and repeated",
                fix="use the same arguments on all ranks, and a sampler whose order follows "
                    "from seed and epoch, or from a generator with the same seed on all "
                    "ranks; give loaders of different data different name=",
            ) from None

    def _step_ended(self, by_speed: SpeedCutter, share: Share, reached: tuple[int, int]) -> None:
        begin, end = share.step
        mine = by_speed.range_of(share.epoch, share.step, self.rank)
        by_speed.step_ended((share.epoch, begin), end - begin, mine[1] - mine[0])
        by_speed.look(self._gather, reached)
        by_speed.begin()

    def _must_be_newest(self, turn: int) -> None:
        if turn != self._turn:
            raise DataError(
                what="two iterators go through one loader",
                where="ElasticLoader",
                why="each would get samples that the other one skips; a restore also ends older "
                    "iterators",
                fix="make a loader for each loop, and begin a new `for` after a restore",
            )

    @abstractmethod
    def _read(self, shares: Iterator[Share]) -> Iterator[Any]:
        """The batch of each share, in order. May take shares ahead of the yielded batch."""

    def _digests(self, places: Sequence[int]) -> list[str]:
        """Digests of these records, read in the kind of process that reads batches."""
        return read_here(self.data.reader(), places)

    # ---- the cut ----

    def _mine(self) -> range:
        """The numbers of this rank's parts among all parts of a step."""
        each = self._cutters // self.world_size
        return range(self.rank * each, (self.rank + 1) * each)

    def _parts(self, step: tuple[int, int], place: tuple[int, int]) -> int:
        if self.by_speed is not None:
            return self.by_speed.parts_at(place, step[1] - step[0])
        return len(self._mine()) if self.virtual_ranks else self._cut.parts_of(*step)

    def _own(self, epoch: int, step: tuple[int, int]) -> list[tuple[int, int, int]]:
        """This rank's parts of a step: number among all ranks' parts, begin, end."""
        if self.by_speed is not None:
            parts = self.by_speed.parts_at((epoch, step[0]), step[1] - step[0])
            shares = [(self.rank, *self.by_speed.range_of(epoch, step, self.rank))]
        else:
            parts = 1 if self.virtual_ranks else self._cut.parts_of(*step)
            shares = [(n, *cut_evenly(*step, n, self._cutters)) for n in self._mine()]
        return [
            (number * parts + part, *cut_evenly(begin, end, part, parts))
            for number, begin, end in shares
            for part in range(parts)
        ]

    def _shares(self, epoch: int, consumed: int) -> Iterator[Share]:
        for step in self._steps(epoch, consumed):
            yield from self._step(epoch, step)

    def _steps(self, epoch: int, consumed: int) -> Iterator[tuple[int, int]]:
        ends = self._ends(epoch)
        if ends is not None:
            for begin, end in _ranges(ends):
                if begin >= consumed:
                    self._must_be_shared(begin, end)
                    yield begin, end
            return
        while self._cut.steps_from(consumed) > 0:
            step = self._cut.step_at(consumed)
            yield step
            consumed = step[1]

    def _must_be_shared(self, begin: int, end: int) -> None:
        if self._is_even and end - begin < self._cutters:
            raise self._cut_error(
                ValueError(f"the batch sampler made a step of {end - begin} samples")
            )

    def _step(self, epoch: int, step: tuple[int, int]) -> Iterator[Share]:
        size = step[1] - step[0]
        # Empty parts occur only with even_steps=False.
        own = [one for one in self._own(epoch, step) if one[1] < one[2]]
        for part, begin, end in own:
            yield Share(
                epoch=epoch,
                step=step,
                begin=begin,
                end=end,
                ends_step=end == own[-1][2],
                part=part,
                weight=(end - begin) * self.world_size / size,
                fraction=(end - begin) / size,
                indices=self.data.indices(epoch, begin, end),
            )

    # ---- state ----

    def state_dict(self) -> Json:
        """The position after the yielded batches, as plain values; the same on every rank."""
        state: Json = {
            "schema": SCHEMA,
            "epoch": self.epoch,
            "consumed": self.consumed,
            "global_batch": self.global_batch,
            "order": self.data.terms(),
            "fingerprint": self._likeness.now(),
        }
        if self._drops_last:
            state["drop_last"] = True
        sampler = self._of_sampler("sampler_state", self.epoch)
        if sampler is not None:
            state["sampler"] = sampler
        if self.by_speed is not None:
            state["cut"] = self.by_speed.state((self.epoch, self.consumed))
        return state

    def load_state_dict(self, state: object) -> None:
        """Continue from a saved position, at any world size.

        Raises:
            DataError: the position is of other data, or of an unknown format.
        """
        self._turn += 1
        saved = checked_state(state)
        self._refuse_other_data(saved)
        self._of_sampler("load_sampler", saved.get("sampler"))
        self.epoch, self.consumed = cast("int", saved["epoch"]), cast("int", saved["consumed"])
        self.current = None
        self._is_read_here = False
        if self.by_speed is not None:
            self.by_speed.load(saved.get("cut"))
        try:
            self._cut.check_from(self.consumed)
        except ValueError as error:
            raise self._cut_error(error) from error

    def _of_sampler(self, call: str, argument: object) -> Any:
        """What the data's method `call` returns; None for data without a sampler."""
        return getattr(self.data, call, _none)(argument)

    def _refuse_other_data(self, saved: Json) -> None:
        where = f"the data set {self.data.name or 'of this loader'}"
        old, new = cast("Json", saved["order"]), self.data.terms()
        other = [f"{key} is {new.get(key)}, and was {old[key]}" for key in old
                 if key != "samples" and new.get(key) != old[key]]
        self._likeness.must_be(saved["fingerprint"], where)
        if old.get("samples") != new.get("samples"):
            other.append(f"an epoch has {new['samples']} samples, and had {old.get('samples')}")
        if other:
            raise DataError(
                what="the checkpoint's position is of another order of the data",
                where=where,
                why="; ".join(other[:4]),
                fix="use the order as it was, or leave the loader out of the state to start from "
                    "the first sample",
            )


def _ranges(ends: list[int]) -> list[tuple[int, int]]:
    return list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []


def must_be_ordered(where: str, data: object) -> None:
    """Raise if the data has no defined order (an `ElasticDataset` or `ElasticMixture` has one)."""
    if all(hasattr(data, name) for name in ("indices", "reader", "terms", "samples")):
        return
    raise DataError(
        what=f"{described(data)} has no order that a loader could follow",
        where=where,
        why="it says neither in which order nor by which seed it is read",
        fix=f"{where}(ElasticDataset(dataset, shuffle=True, seed=7), …)",
    )


def _none(_argument: object) -> None:
    return None


def _no_ends(_epoch: int) -> list[int] | None:
    return None


def rank_and_size(where: str, rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and world size of a loader; by default those of the whole world."""
    return (
        progress.rank() if rank is None else arguments.count(where, "rank", rank, least=0),
        progress.world_size()
        if world_size is None
        else arguments.count(where, "world_size", world_size),
    )


def _virtual_ranks(virtual: int | None, micro_batch: int | None, world_size: int) -> int:
    if virtual is None:
        return 0
    virtual = arguments.count(_WHERE, "virtual_ranks", virtual)
    why = ""
    if virtual & (virtual - 1):
        why = "their sums form a binary tree, so their number is a power of two"
    elif virtual % world_size:
        why = f"{world_size} ranks cannot share them evenly"
    elif micro_batch is not None:
        why = "micro_batch would divide the samples of a virtual rank"
    if why:
        raise DataError(
            what=f"virtual_ranks={virtual} is not allowed",
            where="ElasticLoader",
            why=why,
            fix="use for example virtual_ranks=8 with 1, 2, 4 or 8 ranks, and no micro_batch",
        )
    return virtual
