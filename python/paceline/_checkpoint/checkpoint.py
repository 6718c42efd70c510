"""Checkpoints without a framework: the base of `paceline.torch` and `paceline.numpy`.

A `Framework` knows tensors. This module handles plans, notes and restores. `paceline._native`
writes and reads images. The keeper behind a socket decides what goes to storage.
"""

import json
import os
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self, cast

from paceline._base import arguments
from paceline._base.wording import say
from paceline._checkpoint import deleted_place, one_writer
from paceline._checkpoint.interval import terms
from paceline._checkpoint.link import Fields, Link, find_keeper
from paceline._checkpoint.one_call import OneCall
from paceline._checkpoint.peer_saves import PeerSaves
from paceline._checkpoint.save_order import branches_of, step_of
from paceline._checkpoint.slots import Slots
from paceline._checkpoint.ticket import Ticket
from paceline._native import Image, SavedStep, check_notes_size
from paceline._rank import progress
from paceline._rank.flight import CHECKPOINT, RESTORE
from paceline._rank.phases import in_phase
from paceline._restore import loading
from paceline._restore.damage import tell_damaged, tell_passed_over
from paceline._restore.images import Images, SharedReading, UnreadableError
from paceline._restore.patience import read_patiently
from paceline._restore.rehearsal import rehearse
from paceline._restore.restoring import Framework, Restoring
from paceline._state import notes, randomness
from paceline._state.save_plan import State
from paceline._state.save_planner import Planned
from paceline._storage.storage_place import committed_folder, make_directory, place_of
from paceline.errors import CheckpointError

_PLAIN = "take it out of the state, or give it a state_dict of plain values and tensors"
_NO_SLOT = "every slot in memory was in use"
# A script that goes back at every save must not fill its console.
_BACK_TOLD_MAX = 5


class BaseCheckpointer(ABC):
    """Saves and restores a state, which is a dict by name; see `paceline.torch.Checkpointer`."""

    _keeps_all = False  # True: no checkpoint in the directory is ever removed, whatever `keep` is

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int = 3,
        every: str | int | None = None,
        replicated: bool | None = None,
        replicas: int | None = None,
    ) -> None:
        self._pid = os.getpid()
        self._framework = self._make_framework()
        self._replicated = (
            None if replicated is None else arguments.flag("Checkpointer", "replicated", replicated)
        )
        self._directory = place_of(directory)
        job_socket = os.environ.get("PACELINE_CHECKPOINT_SOCKET", "")
        one_writer.check(self._directory, job_socket)
        asked = terms(
            keep=keep, every=every, replicas=replicas, keeps_all=self._keeps_all
        )
        self._terms = one_writer.terms_in(job_socket, {"directory": self._directory, **asked})
        make_directory(self._directory)
        keeper = find_keeper(self._directory, self._terms)
        self._place = keeper.place
        self._terms.update(keeper.words)
        self._is_replica = False
        self._link = Link(keeper.socket, self._hello(0), self._directory, revive=keeper.revive)
        if self._place.generation < 0:  # only the keeper knows the generation
            self._place = replace(
                self._place, generation=cast("int", self._link.opened["generation"])
            )
        stream = self._framework.stream
        self._slots = Slots(self._link, self._place.rank, self._hello, self._directory, stream)
        self._peers = PeerSaves(self._place.rank, self._place.world_size)
        self._calls = OneCall(self._directory)
        self._overlaps = False  # True: training continues while the device copies; see `fence`
        self._planned: Planned | None = None
        self._rehearsed: frozenset[str] | None = None  # tensor names of the last rehearsal
        self._constants = "}"  # the constant end of the notes' JSON text
        job_id = str(self._link.opened["job_id"])
        self._branches = branches_of(job_id, self._directory, self._place.generation)
        self._last: Ticket | None = None  # ticket of the newest save that is kept in memory
        self._before: Ticket | None = None  # `_last` of the save before
        self._left_out: Ticket | None = None  # the last save, if it was not kept
        self._randoms: dict[str, object] = {}  # of the last restore, if they are this rank's
        self.skipped = 0  # saves that were left out because every slot was in use
        self.restored = ""  # one sentence: where the state was restored from
        self.left_out: list[str] = []  # what restore(strict=False) left out or did not find
        self.replaced: list[str] = []  # objects in the state that a restore replaced by new ones
        self._is_closed = False
        self._is_stored = False  # closed, and every kept save is in storage
        one_writer.note(self, self._terms, job_socket)

    @abstractmethod
    def _make_framework(self) -> Framework:
        """The framework whose tensors this Checkpointer saves."""

    # ---- saving ----

    @in_phase(CHECKPOINT)
    def save(self, step: int, state: State) -> Ticket:
        """Copy the state after step `step` to memory. The keeper decides what goes to storage.

        Every rank calls it: a step counts when all ranks have saved it. The state saved last is
        the newest, whatever its step, so a script may go back to an earlier step.

        Returns:
            A `Ticket`. Its `is_saved` is False if every slot in memory was in use.
        Raises:
            CheckpointError: the state cannot be saved, or this Checkpointer is closed.
        """
        step, state = step_of(step), arguments.state("Checkpointer.save", state)
        self._check_open("save")
        with self._calls.entered("save"):
            return self._save(step, state)

    def _save(self, step: int, state: State) -> Ticket:
        for value in state.values():
            if getattr(value, "marks_checkpoints", False) is True:  # a data set that is leased
                cast("Any", value).mark(step)
        self._settle()
        planned, entries = self._plan(state)
        text = self._notes(step, entries)
        self._rehearse(planned, text, state)
        self._framework.refresh(planned.plan.leaves)
        saved = self._name(step)
        is_saved = self._slots.save(
            planned, text, saved, self._place.world_size, is_replica=self._is_replica
        )
        progress.step(step)
        if not is_saved:
            self.skipped += 1
            self._left_out = Ticket(self, step, branch=saved.branch, lost=_NO_SLOT)
            return self._left_out
        if not self._overlaps:
            self._slots.await_copied()
        self._left_out = None
        self._branches.keep(saved)
        if told := self._peers.warning(saved, str(self._link.opened.get("arena", ""))):
            say(told)
        self._before, self._last = self._last, Ticket(self, step, branch=saved.branch)
        return self._last

    def wait_for(self, ticket: Ticket, level: str, timeout: float | None = None) -> None:
        """See `Ticket.wait`."""
        self._check_process("wait for a save")
        with self._calls.entered("wait"):
            self._wait(ticket, level, timeout)

    def _wait(
        self, ticket: Ticket, level: str, timeout: float | None = None, *, closes: bool = False
    ) -> None:
        """`closes`: this is the last wait, so storage that fails is tried again for long."""
        self._settle()
        if ticket.lost:  # by a device that failed
            return ticket.wait(level)
        if level == "memory" or (level == "durable" and self._is_stored):
            return None
        self._check_open("wait for a save")
        message: Fields = {
            "op": "wait", "branch": ticket.branch, "step": ticket.step, "level": level
        }  # fmt: skip
        if closes:
            message["closing"] = True
        try:
            self._link.request(message, level, timeout)
        except CheckpointError as refused:
            fix = deleted_place.fix_of(refused.fix, self._directory)
            raise CheckpointError(
                what=refused.what, where=refused.where, why=refused.why, fix=fix,
                is_final=refused.is_final,
            ) from None  # fmt: skip

    @in_phase(CHECKPOINT)
    def close(self) -> None:
        """Wait until the last save is in storage. A second call does nothing.

        If the last save was not kept (every slot was in use, or the device failed), `close`
        prints one line to stderr and waits for the save before it.

        Raises:
            CheckpointError: storage failed for `timers.storage_wait` (10 minutes). A job of
                `paceline run` then ends with exit code 11 instead of 0 and keeps its memory.
        """
        self._check_process("close")
        with self._calls.entered("close"):
            self._close()

    def _close(self) -> None:
        last, self._last = self._last, None
        left_out, self._left_out = self._left_out, None
        try:
            if last is not None:
                with deleted_place.told(self._directory, last.step):
                    self._wait(last, "durable", closes=True)
            self._settle()
            self._is_stored = True
        finally:
            self._free()
        if left_out is not None:
            kept = f"step {last.step} is the newest" if last is not None else "nothing was saved"
            say(f"the last save, of step {left_out.step}, was left out: {left_out.lost}; {kept}")

    def _free(self) -> None:
        """Release the directory for another Checkpointer."""
        self._is_closed = True
        self._slots.close()
        self._link.close()
        one_writer.forget(self, self._directory)

    def _check_process(self, what: str) -> None:
        one_writer.check_process(self._pid, what, self._directory)

    def _check_open(self, what: str) -> None:
        self._check_process(what)
        if self._is_closed:
            raise CheckpointError(
                what=f"cannot {what}: this Checkpointer is closed",
                where=self._directory,
                why="close() was called, and another Checkpointer may save there now",
                fix="call close() after the last save, or make a new Checkpointer",
                is_final=True,
            )

    def _name(self, step: int) -> SavedStep:
        """The identity of this save. Prints one line if the script goes back to an earlier step."""
        before = self._branches.last
        saved = self._branches.next(step)
        if step <= before and self._place.rank == 0:
            _say_back(step, before, saved.branch)
        return saved

    def __enter__(self) -> Self:
        self._check_process("enter its block")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        elif self._pid == os.getpid():  # not in a forked child: the block is its parent's
            self._free()  # the keeper writes the images in memory to storage

    def _settle(self) -> None:
        """Wait until the last save is complete in memory. Raise its error, once."""
        try:
            self._slots.settle()
        except CheckpointError:
            if self._last is not None:
                self._last.lost = "the device failed while the step was copied from it"
                self._last, self._left_out = self._before, self._last
                self._branches.drop()
            raise

    def _plan(self, state: State) -> tuple[Planned, dict[str, notes.Json]]:
        """The plan of this state, and its entries that are not tensors, as JSON."""
        try:
            planned = self._planned
            entries = planned.ask(state) if planned is not None else None
            if planned is not None and entries is not None:
                return planned, entries
            planned = Planned(self._framework, state)
        except notes.NotesError as error:
            raise CheckpointError(
                what="the state holds something that a checkpoint cannot hold",
                where=self._directory,
                why=str(error),
                fix=error.fix or _PLAIN,
                is_final=True,
            ) from error
        self._planned = planned
        constants: dict[str, object] = {"constants": planned.plan.constants}
        constants["shapes"] = planned.shapes
        if planned.kinds:
            constants["kinds"] = planned.kinds
        self._constants = json.dumps(constants, separators=(",", ":"))[1:]
        self._is_replica = (
            self._replicated
            if self._replicated is not None
            else not planned.shapes and self._framework.is_replica(state)
        )
        return planned, planned.first

    def _rehearse(self, planned: Planned, text: bytes, state: State) -> None:
        """Check that a restore would fit: at the first save, and when the tensors' names change."""
        if planned.is_rehearsed:
            return
        names = frozenset(leaf.key for leaf in planned.plan.leaves)
        if names != self._rehearsed:
            rehearse(self._framework, planned, text, state)
            self._rehearsed = names
        planned.is_rehearsed = True
        planned.leave()

    def _notes(self, step: int, entries: dict[str, notes.Json]) -> bytes:
        randoms = {"python": randomness.python_state(), **self._framework.random_state()}
        text = {
            "schema": notes.SCHEMA,
            "rank": self._place.rank,
            "world_size": self._place.world_size,
            "step": step,
            "random": notes.encode(randoms, where="random"),
            "entries": entries,
        }
        head = json.dumps(text, separators=(",", ":"))[:-1]
        whole = f"{head},{self._constants}".encode()
        try:
            check_notes_size(whole)
        except RuntimeError as error:
            raise CheckpointError(
                what="the state holds too many plain values",
                where=self._directory,
                why=str(error),
                fix="put long lists of numbers into tensors",
                is_final=True,
            ) from error
        return whole

    def _hello(self, image_bytes: int) -> Fields:
        return {
            "op": "open",
            "rank": self._place.rank,
            **({"generation": self._place.generation} if self._place.generation >= 0 else {}),
            "pid": os.getpid(),
            "image_bytes": image_bytes,
            "is_replica": self._is_replica,
            **self._terms,
        }

    # ---- restoring ----

    @in_phase(RESTORE)
    def restore(self, state: State, *, strict: bool = True) -> int:
        """Fill `state` from the newest complete step that all ranks can read.

        After a save, this waits until all ranks have this rank's last save, and loads that.
        With `strict=False` parts that do not fit are left out and listed in `left_out`.

        Returns:
            The step to do next; 0 if there is no checkpoint.
        Raises:
            CheckpointError: the state does not fit, or the checkpoint cannot be read.
        """
        state = arguments.state("Checkpointer.restore", state)
        arguments.flag("Checkpointer.restore", "strict", strict)
        self._check_open("restore")
        with self._calls.entered("restore"):
            return self._restore(state, strict=strict)

    def _restore(self, state: State, *, strict: bool) -> int:
        self._settle()
        answer = self._ask_restore()
        self.left_out, self.replaced = [], []
        self.restored = str(answer.get("reason", ""))
        self.restored += tell_passed_over(answer, says=self._place.rank == 0)
        if answer.get("damaged"):
            raise CheckpointError(
                what="every checkpoint is damaged",
                where=self._directory,
                why=f"the last one that was tried is {answer['damaged']}",
                fix=f"paceline ckpt verify {self._directory}; to start at step 0, use another "
                    "directory",
            )
        if answer.get("from") == "nothing":
            self._prepare(state)
            return 0
        self._fill(state, answer, strict=strict)
        self._prepare(state)
        return cast("int", answer["step"]) + 1

    def _ask_restore(self) -> Fields:
        request: Fields = {"op": "restore", "world_size": self._place.world_size}
        kept = self._branches.kept
        if kept is not None:  # the step that the world started from is older
            saved: Fields = {"branch": kept.branch, "step": kept.step}
            self._link.request({"op": "wait", "level": "durable", **saved}, "durable")
            request["after"] = saved
        return self._link.request(request, "restore")

    def _fill(self, state: State, answer: Fields, *, strict: bool) -> None:
        where = str(answer.get("path", "memory"))

        answers = iter([answer])  # used once; a second read asks the keeper again

        def read() -> Restoring:
            asked = next(answers, None) or self._ask_restore()
            images = self._images(asked)
            try:
                return loading.fill(self._framework, images, state, strict=strict, where=where)
            except CheckpointError:
                stored = self._stored(asked)
                if stored is None:
                    raise
            # In memory a rank has its own part. In storage it finds what another rank had.
            images = Images.stored(stored, self._place.rank)
            return loading.fill(self._framework, images, state, strict=strict, where=stored)

        try:
            work = read_patiently(read, where) if answer.get("path") else read()
        except UnreadableError as error:
            raise tell_damaged(self._link, answer, error) from error
        work.finish()
        self.left_out, self.replaced = work.left_out, work.replaced
        self._restore_random(work.own)
        self.restored += work.told()

    def is_stored(self, answer: Fields) -> bool:
        """Whether storage has all ranks' parts of the step that a restore would read."""
        return answer.get("from") == "storage" or self._stored(answer) is not None

    def _stored(self, answer: Fields) -> str | None:
        """The folder in storage of a step that is restored from memory, if it is complete there."""
        if answer.get("from") != "memory" or not self._directory.startswith("/"):
            return None
        numbers = [cast("int", answer[name]) for name in ("step", "generation", "branch")]
        return committed_folder(self._directory, *numbers)

    def _prepare(self, state: State) -> None:
        """Make room in memory for the first save now, and map it in the background."""
        planned, _entries = self._plan(state)
        planned.leave()
        # Optimizers have no state before their first step, so its size is estimated.
        expected = self._framework.expected_bytes(state) + planned.padding_max
        self._slots.prepare(planned, max(planned.layout.file_bytes + (1 << 20), expected))

    def _images(self, answer: Fields) -> Images:
        own = self._place.rank
        listed = cast("list[dict[str, object]]", answer.get("images", []))
        saved = SavedStep(
            cast("int", answer["generation"]),
            cast("int", answer["branch"]),
            cast("int", answer["step"]),
        )
        opened = self._link.opened
        places = {cast("int", one["rank"]): one for one in listed}
        identity = (str(opened["job_id"]), str(opened["boot_id"]))

        def open_one(rank: int) -> Image:
            one = places[rank]
            if "folder" in one:
                return Image.on_disk(str(one["folder"]), rank)
            return Image.in_memory(str(one["path"]), *identity, rank, saved)

        if answer["from"] == "memory":
            return Images(list(places), own, open_one)
        # From an object store the keeper fetched only the files that this rank needs.
        is_far = not self._directory.startswith("/")
        is_same_size = answer["world_size"] == self._place.world_size
        chunks = str(answer.get("chunks", ""))
        shared = SharedReading(chunks, not is_same_size, not is_far) if chunks else None
        read_once = next(iter(places), None)
        return Images.stored(
            str(answer["path"]),
            own,
            self._fetch_all if is_far and is_same_size else None,
            None if read_once is None else (read_once, lambda: open_one(read_once)),
            shared,
        )

    def _fetch_all(self) -> None:
        self._link.request({"op": "restore", "world_size": 0}, "restore")

    def _restore_random(self, own: dict[str, object]) -> None:
        # Only a rank's own random state is restored. Ranks must not share one sequence.
        is_resized = own.get("world_size") != self._place.world_size
        if is_resized or own.get("rank") != self._place.rank:
            lost = "this rank's random numbers were lost with its host"
            why = "the number of ranks has changed" if is_resized else lost
            self.restored += f"; random generators get new seeds, because {why}"
            return
        self._randoms = cast("dict[str, object]", notes.decode(own.get("random", {})))
        self.restore_random()

    def restore_random(self) -> None:
        """Set the restored random numbers again; the framework drew some before its first step."""
        self._check_process("restore random numbers")
        state = dict(self._randoms)
        if state:
            randomness.set_python_state(state.pop("python"))
            self._framework.set_random_state(state)


def _say_back(step: int, before: int, branch: int) -> None:
    if branch > _BACK_TOLD_MAX:
        return
    last = "; further ones are not told" if branch == _BACK_TOLD_MAX else ""
    say(f"step {step} is saved after step {before}: what is saved last is the newest{last}")
