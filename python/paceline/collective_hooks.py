"""Records each collective of an unmodified script, by the hooks of torch's process groups.

Every group passes `_register_pg_in_world`, also those of `split_group`. The hook before a
collective records that it begins; the one after it gets torch's `Work`, and a thread records when
that is complete. On a GPU the host runs ahead of the device: a collective that has begun there may
still wait for its turn.
"""

import atexit
import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from paceline.flight import Flight
from paceline.import_hook import when_imported

_MODULE = "torch.distributed.distributed_c10d"
# More than this many collectives that are not complete are not followed: the newest of them are the
# ones that a hang is about, and a reference keeps their tensors.
_WORKS_MAX = 64
_LOOK_SECONDS = 0.02
_HOOK_ID = int.from_bytes(b"paceline", "little") >> 1
# torch's names of operations (HookOpName), as its functions are called. A name that is missing here
# is written in lower case.
NAMES = {
    "SEND": "send",
    "RECV": "recv",
    "BROADCAST": "broadcast",
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "REDUCE": "reduce",
    "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
    "BARRIER": "barrier",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "SPLIT": "split_group",
    "NEW_WINDOW": "new_window",
    "UNKNOWN": "unknown",
}
_POINT_TO_POINT = {"send", "recv"}


class Follower:
    """Records when collectives are complete: `Follower(writer.complete).add(number, work)`."""

    def __init__(self, complete: Callable[[int], None]) -> None:
        self._complete = complete
        self._works: deque[tuple[int, Any]] = deque()
        self._lock = threading.Lock()
        self._has_work = threading.Event()
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._kept: deque[tuple[int, Any]] = deque()
        os.register_at_fork(after_in_child=self._leave)

    def add(self, number: int, work: Any) -> None:
        """Follow `work`, the collective of that number, until it is complete."""
        if self._ends.is_set():
            return
        with self._lock:
            if len(self._works) == _WORKS_MAX:
                self._complete(self._works.popleft()[0])
            self._works.append((number, work))
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="paceline", daemon=True)
            self._thread.start()
            atexit.register(self._stop)
        self._has_work.set()

    def look(self) -> None:
        """Record what is complete, the oldest first, up to the first that is not.

        On a GPU a look at one collective takes microseconds, and most complete in their order.
        """
        if self._works:
            with self._lock:
                self._drop_oldest()

    def look_at_all(self) -> None:
        """Record all that is complete by now, in whatever order."""
        with self._lock:
            if not self._drop_oldest():
                for _ in range(len(self._works)):
                    number, work = self._works.popleft()
                    if _is_complete(work):
                        self._complete(number)
                    else:
                        self._works.append((number, work))
            if not self._works:
                self._has_work.clear()

    def _drop_oldest(self) -> int:
        dropped = 0
        while self._works and _is_complete(self._works[0][1]):
            self._complete(self._works.popleft()[0])
            dropped += 1
        return dropped

    def _follow(self) -> None:
        while not self._ends.wait(_LOOK_SECONDS):
            self.look_at_all()
            self._has_work.wait()

    def _stop(self) -> None:
        """Ends the thread while Python still runs.

        Python ends a daemon thread where it next takes the GIL. Inside torch's `is_completed` that
        is a destructor of C++, and the process aborts.
        """
        self._ends.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join()
        self.look_at_all()

    def _leave(self) -> None:
        """In a forked child: the parent follows, and the thread that does is not here."""
        # Kept: a Work that is destroyed in a child would wait for threads that are not there.
        self._kept, self._works = self._works, deque()
        self._lock = threading.Lock()
        self._thread = None
        self._ends.set()


def _is_complete(work: Any) -> bool:
    try:
        return work.is_completed()
    except RuntimeError:  # of a device that has failed
        return False


class Recorder:
    """Records the collectives of one process group.

    `group` gives the group's text; it is asked for at the first collective.

    Example: `number = recorder.begin("all_reduce", [tensor])`, then `recorder.end(number, …)`.
    """

    def __init__(self, flight: Flight, follower: Follower, group: Callable[[], str]) -> None:
        self._flight = flight
        self._writer = flight.writer
        self._follower = follower
        self._group_text = group
        self._group: int | None = None
        self._sequence = itertools.count(1).__next__
        self._operations: dict[str, tuple[int, bool]] = {}
        self._dtypes: dict[object, int] = {None: 0}
        # Which operations' Work never says that it is complete: gloo's reduce_scatter is such.
        self._silent: dict[str, bool] = {}
        self._unsaid: list[int] = []

    def begin(self, operation: str, tensors: list[Any]) -> int:
        """The number of the record that says: this rank enters `operation` with `tensors`."""
        self._follower.look()
        if self._unsaid:
            # This rank is past them. Whether its peers are is what the next one shows.
            unsaid, self._unsaid = self._unsaid, []
            for number in unsaid:
                self._writer.complete(number)
        known = self._operations.get(operation)
        if known is None:
            known = (self._flight.name(operation), operation not in _POINT_TO_POINT)
            self._operations[operation] = known
        if self._group is None:
            self._group = self._flight.name(self._group_text())
        name, is_counted = known
        size, dtype = _size(tensors)
        kind = self._dtypes.get(dtype)
        if kind is None:
            kind = self._dtypes[dtype] = self._flight.name(str(dtype).removeprefix("torch."))
        sequence = self._sequence() if is_counted else 0
        return self._writer.begin(self._group, name, kind, self._flight.site(), sequence, size)

    def end(self, number: int, operation: str, work: Any) -> None:
        """The call was issued; it is complete when its `work` says so."""
        if work is None or work.is_completed():
            self._writer.complete(number)
            return
        silent = self._silent.get(operation)
        if silent is None:
            silent = self._silent[operation] = _is_silent(work)
        if silent:
            self._unsaid.append(number)
        else:
            self._follower.add(number, work)


def _size(tensors: list[Any]) -> tuple[int, object]:
    """Bytes and dtype of some tensors."""
    if not tensors:
        return 0, None
    first = tensors[0]
    size = first.numel() * first.element_size()
    if len(tensors) > 1:
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return size, first.dtype


def _is_silent(work: Any) -> bool:
    """Whether `work` is one whose `is_completed` is always False, which has no future either."""
    try:
        work.get_future()
    except (RuntimeError, NotImplementedError):
        return True
    return False


class _Hooks:
    """The two hooks of one process group, as torch calls them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begun: dict[int, tuple[int, str]] = {}
        self._operations: dict[int, str] = {}

    def before(self, call: Any) -> None:
        kind = call.name.value  # reading its name takes 1 µs
        operation = self._operations.get(kind)
        if operation is None:
            text: str = call.name.name
            operation = self._operations[kind] = NAMES.get(text, text.lower())
        tensors = call.input_tensors or call.output_tensors
        if len(self._begun) >= _WORKS_MAX:  # calls that raised are never heard of again
            self._begun.clear()
        self._begun[call.op_id] = (self._recorder.begin(operation, tensors), operation)

    def after(self, call: Any) -> None:
        begun = self._begun.pop(call.op_id, None)
        if begun is not None:
            self._recorder.end(*begun, call.work)


def members_text(ranks: list[int]) -> str:
    """Ranks as runs: `members_text([0, 1, 2, 8])` is "0-2,8"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def watch_collectives(flight: Flight) -> None:
    """Record the collectives of every process group from now on, once torch is there."""
    follower = Follower(flight.writer.complete)

    def then(module: Any) -> None:
        if not hasattr(module, "_register_pg_in_world"):
            return  # an older torch
        registers = module._register_pg_in_world

        @functools.wraps(registers)
        def register(pg: Any, *args: Any, **kwargs: Any) -> Any:
            result = registers(pg, *args, **kwargs)
            name = str(kwargs.get("group_name", args[2] if len(args) > 2 else pg.group_name))
            size = pg.size()
            _attach(pg, Recorder(flight, follower, lambda: _group_text(module, name, size)))
            return result

        module._register_pg_in_world = register
        atexit.register(_detach_all, module)

    when_imported(_MODULE, then)


def _group_text(module: Any, name: str, size: int) -> str:
    """A group's name and members, for example "3 0-1"; torch tells them after the registration."""
    world = module._world
    ranks: list[int] = []
    for pg, its_name in list(world.pg_names.items()):
        if its_name == name:
            ranks = list(world.pg_group_ranks.get(pg, ()))
    text = f"{name} {members_text(ranks or list(range(size)))}"
    return text if len(text) < 128 else name


def _attach(pg: Any, recorder: Recorder) -> None:
    if hasattr(pg, "register_pre_hook"):
        hooks = _Hooks(recorder)
        pg.register_pre_hook(_HOOK_ID, hooks.before)
        pg.register_post_hook(_HOOK_ID, hooks.after)


def _detach_all(module: Any) -> None:
    """Take the hooks from the groups that the script has not destroyed, before Python ends.

    Such a group lives longer than Python does, and its destructor would free our functions then.
    """
    for pg in list(module._world.pg_map):
        if hasattr(pg, "unregister_pre_hook"):
            pg.unregister_pre_hook(_HOOK_ID)
            pg.unregister_post_hook(_HOOK_ID)
