"""Records each collective of an unmodified script, by the hooks of torch's process groups.

Every group passes `_register_pg_in_world`, also those of `split_group`. The hook before a
collective records that it begins; the one after it gets torch's `Work`, and a thread records when
that is complete. On a GPU the host runs ahead of the device: a collective that has begun there may
still wait for its turn.
"""

import atexit
import functools
import threading
from collections import deque
from typing import Any

from paceline.flight import Flight
from paceline.import_hook import when_imported

_MODULE = "torch.distributed.distributed_c10d"
# More than this many collectives that are not complete are not followed: the newest of them are the
# ones that a hang is about, and a reference keeps their tensors.
_WORKS_MAX = 64
_LOOK_SECONDS = 0.02
_HOOK_ID = int.from_bytes(b"paceline", "little") >> 1
# torch's names of operations, as its functions are called.
_NAMES = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
}
_POINT_TO_POINT = {"SEND", "RECV", "RECV_ANY_SOURCE", "RECVANYSOURCE"}


class _Follower:
    """Records when collectives are complete: `_Follower(writer.complete).add(number, work)`."""

    def __init__(self, complete: Any) -> None:
        self._complete = complete
        self._works: deque[tuple[int, Any]] = deque()
        self._lock = threading.Lock()
        self._has_work = threading.Event()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, number: int, work: Any) -> None:
        if work is None or work.is_completed():
            self._complete(number)
            return
        with self._lock:
            if len(self._works) == _WORKS_MAX:
                self._complete(self._works.popleft()[0])
            self._works.append((number, work))
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="paceline", daemon=True)
            self._thread.start()
            # A daemon thread that asks for the interpreter lock while Python ends is unwound
            # through the frames of torch that it is in, and those abort the process.
            atexit.register(self.end)
        self._has_work.set()

    def look(self) -> None:
        """Record what is complete by now."""
        with self._lock:
            for _ in range(len(self._works)):
                number, work = self._works.popleft()
                if work.is_completed():
                    self._complete(number)
                else:
                    self._works.append((number, work))
            if not self._works and not self._is_over.is_set():
                self._has_work.clear()

    def end(self) -> None:
        """Follow nothing any more; the thread has ended when this returns."""
        self._is_over.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self._has_work.wait()
            self.look()


class _Recorder:
    """The two hooks of one process group."""

    def __init__(self, flight: Flight, follower: _Follower, group: int) -> None:
        self._flight = flight
        self._begin = flight.writer.begin
        self._follower = follower
        self._group = group
        self._sequence = 0
        self._begun: dict[int, int] = {}

    def before(self, call: Any) -> None:
        self._follower.look()
        flight = self._flight
        operation: str = call.name.name
        sequence = 0
        if operation not in _POINT_TO_POINT:
            self._sequence = sequence = self._sequence + 1
        tensors = call.input_tensors or call.output_tensors
        size = 0
        dtype = 0
        if tensors:
            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            dtype = flight.name(str(tensors[0].dtype).removeprefix("torch."))
        name = flight.name(_NAMES.get(operation) or operation.lower())
        self._begun[call.op_id] = self._begin(
            self._group, name, dtype, flight.site(), sequence, size
        )

    def after(self, call: Any) -> None:
        number = self._begun.pop(call.op_id, None)
        if number is not None:
            self._follower.add(number, call.work)


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
    follower = _Follower(flight.writer.complete)

    def then(module: Any) -> None:
        if not hasattr(module, "_register_pg_in_world"):
            return  # an older torch
        registers = module._register_pg_in_world

        @functools.wraps(registers)
        def register(pg: Any, *args: Any, **kwargs: Any) -> Any:
            result = registers(pg, *args, **kwargs)
            _attach(pg, _group_text(module, pg, args, kwargs), flight, follower)
            return result

        module._register_pg_in_world = register

    when_imported(_MODULE, then)


def _group_text(module: Any, pg: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    name = kwargs.get("group_name", args[2] if len(args) > 2 else pg.group_name)
    mapping = kwargs.get("rank_mapping") or module._world.pg_group_ranks.get(pg)
    ranks = list(mapping) if mapping else list(range(pg.size()))
    text = f"{name} {members_text(ranks)}"
    return text if len(text) < 128 else str(name)


def _attach(pg: Any, group: str, flight: Flight, follower: _Follower) -> None:
    if not hasattr(pg, "register_pre_hook"):
        return
    recorder = _Recorder(flight, follower, flight.name(group))
    pg.register_pre_hook(_HOOK_ID, recorder.before)
    pg.register_post_hook(_HOOK_ID, recorder.after)
