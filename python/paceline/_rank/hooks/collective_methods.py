"""Records the collectives of a torch whose process groups have no hooks, by patching their methods.

torch 2.4 has no such hooks. Recorded are the calls that go through torch.distributed. Calls from
C++ are missed: DDP's reducer and functional collectives. All ranks have the same torch, so they
miss the same calls and number the others alike.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

from paceline._rank.hooks.collective_recorder import Follower, group_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline._native import CollectiveRecorder

# The method, the name of torch.distributed's function, and the index of the argument that is sent.
_METHODS = (
    ("allreduce", "all_reduce", 0),
    ("allreduce_coalesced", "all_reduce_coalesced", 0),
    ("broadcast", "broadcast", 0),
    ("reduce", "reduce", 0),
    ("allgather", "all_gather", 1),
    ("_allgather_base", "all_gather_into_tensor", 1),
    ("allgather_coalesced", "all_gather_coalesced", 1),
    ("allgather_into_tensor_coalesced", "all_gather_into_tensor_coalesced", 1),
    ("gather", "gather", 1),
    ("scatter", "scatter", 1),
    ("reduce_scatter", "reduce_scatter", 1),
    ("_reduce_scatter_base", "reduce_scatter_tensor", 1),
    ("reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced", 1),
    ("alltoall", "all_to_all", 1),
    ("alltoall_base", "all_to_all_single", 1),
    ("barrier", "barrier", 2),
    ("send", "send", 0),
    ("recv", "recv", 0),
    ("recv_anysource", "recv", 0),
)


def patch(module: Any, follower: Follower) -> None:
    """Record the calls of `module.ProcessGroup`'s methods: `patch(distributed_c10d, …)`."""
    recorders: weakref.WeakKeyDictionary[Any, CollectiveRecorder] = weakref.WeakKeyDictionary()

    def find(group: Any) -> "CollectiveRecorder":
        recorder = recorders.get(group)
        if recorder is None:
            name = str(module._world.pg_names.get(group, ""))
            text = group_text(module, name, group.size())
            recorder = recorders[group] = follower.recorder(str, lambda: text)
        return recorder

    for method, operation, sent in _METHODS:
        call = getattr(module.ProcessGroup, method, None)
        if call is not None:
            setattr(module.ProcessGroup, method, _recorded(call, operation, sent, find))


def _recorded(call: Callable[..., Any], operation: str, sent: int,
              find: Callable[[Any], "CollectiveRecorder"]) -> Any:
    @functools.wraps(call)
    def calls(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = find(self)
        # A rank that sends nothing records what it receives, as all but one rank of a scatter.
        tensors = _tensors(args[sent:sent + 1]) or _tensors(args[:sent])
        number = recorder.begin(operation, tensors)
        work = None  # if the call raises, this rank has left the collective
        try:
            work = call(self, *args, **kwargs)
            return work
        finally:
            recorder.end(number, operation, work)

    return calls


def _tensors(values: Any) -> list[Any]:
    """The tensors in these arguments, also in lists."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _tensors(value)
        elif hasattr(value, "nbytes"):
            found.append(value)
    return found
