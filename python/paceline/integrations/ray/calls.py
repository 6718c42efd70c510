"""The calls of Ray that jobs need. Ray's own types are too narrow for actors of any class."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import ray as _ray
from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.exceptions import RayError as ActorError

ray: Any = _ray
NAMESPACE = "paceline"

_RESTART_SECONDS = 60.0
_PAUSE_SECONDS = 0.2

__all__ = ["NAMESPACE", "ActorError", "ask", "away_from", "draining", "find_actor", "first_line",
           "get", "head_address", "host_of", "is_there", "is_unfit", "kill", "last_line", "ray",
           "ray_node", "start_actor"]


def get(answer: Any) -> Any:
    """The value of an answer; blocks until it is there.

    Raises:
        ActorError: the actor is dead, or its method raised.
    """
    return ray.get(answer)


def ask(actor: Any, method: str, *args: Any, within: float | None = None, **named: Any) -> Any:
    """What that method returns. An actor that Ray is starting anew is waited for.

    Args:
        actor: whose method it is.
        method: its name; `args` and `named` go to it.
        within: how long the answer may take, in seconds; None: for ever.

    Raises:
        ActorError: the actor is dead, its method raised, or it did not answer in time.
    """
    until = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return ray.get(getattr(actor, method).remote(*args, **named), timeout=within)
        except ActorUnavailableError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


def is_there(answer: Any) -> bool:
    """Whether an answer has come, or never will because its actor is dead."""
    if answer is None:
        return False
    done, _ = ray.wait([answer], timeout=0)
    return bool(done)


def start_actor(of: type, name: str, *args: Any, **options: Any) -> Any:
    """Ask Ray for a detached actor of that class. Returns at once."""
    made = ray.remote(of).options(name=name, namespace=NAMESPACE, lifetime="detached", **options)
    return made.remote(*args)


def find_actor(name: str) -> Any:
    """The actor of that name; None: there is none."""
    with suppress(ValueError):
        return ray.get_actor(name, NAMESPACE)
    return None


def kill(actor: Any, *, for_good: bool = True) -> None:
    """End an actor. A dead one is left alone."""
    with suppress(Exception):
        ray.kill(actor, no_restart=for_good)


def ray_node() -> str:
    """Ray's id of the node on which this process is."""
    return ray.get_runtime_context().get_node_id()


def head_address() -> str:
    """HOST:PORT of Ray's head."""
    return ray.get_runtime_context().gcs_address


def is_unfit(error: Exception) -> bool:
    """Whether an actor died because its class could not even be made on its raylet."""
    return isinstance(error, ActorDiedError) and error.actor_init_failed


def host_of(actor: Any) -> tuple[str, str]:
    """Ray's id of the raylet of an actor, also of a dead one, and its host; "": unknown."""
    from ray._private.state import actors

    known: Any = actors
    raylet = known(actor._ray_actor_id.hex()).get("Address", {}).get("NodeID", "")
    hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
    return raylet, hosts.get(raylet, "")


def draining() -> dict[str, int]:
    """The raylets that Ray drains: until when, in milliseconds since 1970; 0: no deadline.

    Ray has no public call for it; its own Serve and Data use this one.
    """
    from ray._private.state import state

    known: Any = state
    return known.get_draining_nodes()


def away_from(hosts: Collection[str], raylets: Collection[str] = ()) -> dict[str, Any]:
    """The options of an actor that is not to be on these hosts, nor on these raylets."""
    ids = {node["NodeID"] for node in ray.nodes() if node["NodeManagerHostname"] in hosts}
    ids.update(raylets)
    return {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(ids))})"}} if ids else {}


def first_line(error: Exception) -> str:
    """What Ray says of an error, as one short line."""
    return _line_of(error, 0)


def last_line(error: Exception) -> str:
    """The exception at the end of the traceback that Ray passes on, as one short line."""
    return _line_of(error, -1)


def _line_of(error: Exception, number: int) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return json.dumps(lines[number])[1:-1][:300] if lines else type(error).__name__
