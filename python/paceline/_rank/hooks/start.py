"""Records that a rank is in `init_process_group`, and where it looks for the other ranks.

A rank that waits there has not called a collective yet. The ring shows the wait as a collective of
a group of its own, "start 0-3", so a missing rank is found as in any other collective.
"""

import functools
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

from paceline._rank.flight import Flight
from paceline._rank.hooks.collective_recorder import members_text
from paceline._rank.hooks.on_import import when_imported

_NAME = "init_process_group"


def watch_start(flight: Flight, world_size: int) -> None:
    """Record each `init_process_group` of the whole world, as soon as torch is imported."""

    def watch(module: Any) -> None:
        original = module.__dict__.get(_NAME)  # none in a torch without distributed
        if original is None:
            return
        begins = _around(original, flight, world_size)
        setattr(module, _NAME, begins)
        package: Any = sys.modules.get("torch.distributed")
        if hasattr(package, _NAME):  # already imported, by the starter
            setattr(package, _NAME, begins)

    when_imported("torch.distributed.distributed_c10d", watch)


def _around(call: Callable[..., Any], flight: Flight, world_size: int) -> Callable[..., Any]:
    sequence = itertools.count(1).__next__
    group = f"start {members_text(list(range(world_size)))}"

    @functools.wraps(call)
    def calls(*args: Any, **kwargs: Any) -> Any:
        if _size(args, kwargs) not in (-1, world_size):
            return call(*args, **kwargs)
        site = flight.site(_address(args, kwargs))
        number = flight.writer.begin(
            flight.name(group), flight.name(_NAME), 0, site, sequence(), 0
        )
        try:
            return call(*args, **kwargs)
        finally:  # after an error, too: the rank ends or tries again
            flight.writer.complete(number)

    return calls


def _size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The world size that the script passes; -1 if it passes none."""
    return kwargs.get("world_size", args[3] if len(args) > 3 else -1)


def _address(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Where the ranks meet, such as ", at 10.77.0.1:29400"; "" for a store or a file."""
    method = kwargs.get("init_method", args[1] if len(args) > 1 else None)
    if kwargs.get("store") is not None:
        return ""
    if isinstance(method, str) and method.startswith("tcp://"):
        return f", at {method.removeprefix('tcp://').split('/')[0].split('?')[0]}"
    if method is None or str(method).startswith("env://"):
        host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
        return f", at {host}:{port}" if host and port else ""
    return ""
