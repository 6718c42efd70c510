"""Records each collective of an unmodified script, by the hooks of torch's process groups.

`_register_pg_in_world` sees every group, also those of `split_group`. The hook before a collective
records its begin; the hook after it gets torch's `Work`. Both are C++, in bindings/collectives.cc.
For a torch without such hooks, collective_methods.py patches the methods instead.
"""

import atexit
import functools
from collections.abc import Callable
from typing import Any

from paceline._rank.flight import Flight
from paceline._rank.hooks import collective_methods
from paceline._rank.hooks.collective_recorder import Follower, group_text
from paceline._rank.hooks.on_import import when_imported
from paceline._rank.hooks.waits import watch_waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline._native import CollectiveRecorder

_MODULE = "torch.distributed.distributed_c10d"
_HOOK_ID = int.from_bytes(b"paceline", "little") >> 1
# torch's names of operations (HookOpName) → names of its functions. A name that is missing here is
# written in lower case.
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


def _operation(kind: Any) -> str:
    text: str = kind.name
    return NAMES.get(text, text.lower())


def watch_collectives(flight: Flight) -> Callable[[], int]:
    """Record the collectives of every process group, as soon as torch is imported.

    Returns a function that records which of them are complete by now.
    """
    follower = Follower(flight)

    def then(module: Any) -> None:
        group = module.__dict__.get("ProcessGroup")  # none in a torch without distributed
        has_hooks = hasattr(group, "register_pre_hook")
        if has_hooks and hasattr(module, "_register_pg_in_world"):
            _watch_registration(module, follower)
        elif group is not None:
            collective_methods.patch(module, follower)
        watch_waits(module, follower.works)

    when_imported(_MODULE, then)
    return follower.works.look


def _watch_registration(module: Any, follower: Follower) -> None:
    registers = module._register_pg_in_world

    @functools.wraps(registers)
    def register(pg: Any, *args: Any, **kwargs: Any) -> Any:
        result = registers(pg, *args, **kwargs)
        name = str(kwargs.get("group_name", args[2] if len(args) > 2 else pg.group_name))
        size = pg.size()
        _attach(pg, follower.recorder(_operation, lambda: group_text(module, name, size)))
        return result

    module._register_pg_in_world = register
    atexit.register(_detach_all, module)


def _attach(pg: Any, recorder: "CollectiveRecorder") -> None:
    pg.register_pre_hook(_HOOK_ID, recorder.before)
    pg.register_post_hook(_HOOK_ID, recorder.after)


def detach(pg: Any) -> None:
    """Stop recording the collectives of `pg`."""
    pg.unregister_pre_hook(_HOOK_ID)
    pg.unregister_post_hook(_HOOK_ID)


def _detach_all(module: Any) -> None:
    """Remove the hooks of groups that the script has not destroyed, before Python ends.

    Such a group outlives Python, and its destructor would then free our Python functions.
    """
    for pg in list(module._world.pg_map):
        detach(pg)
