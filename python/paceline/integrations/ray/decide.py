"""What the adapter does about nodes, as a pure function: `decide(wish, seen)`.

The rules are those of the Kubernetes operator: a wish is complete, a node of a higher incarnation
replaces one of a lower, and a node that has ended is reported until the master wishes for its next
incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self


@dataclass(frozen=True, order=True)
class NodeId:
    """Node `index` for the `incarnation`th time, from 0."""

    index: int
    incarnation: int

    @property
    def name(self) -> str:
        return f"node{self.index}"


class State(Enum):
    """Of a node's actor."""

    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"


@dataclass(frozen=True)
class Seen:
    """A node's actor, as the adapter saw it last. `words` say why it waits, or how it ended."""

    node: NodeId
    state: State
    words: str = ""


@dataclass(frozen=True)
class Wish:
    """The nodes that the master wishes for."""

    seq: int
    drain: bool
    size: int
    spares: int
    incarnations: Mapping[int, int]
    absent: frozenset[int]
    excluded: frozenset[str] = frozenset()
    """Hosts on which no further node is to be started."""

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """From the line of `paceline place`."""
        return cls(line["seq"], line["drain"], line["size"], line["spares"],
                   {int(index): at for index, at in line["incarnations"].items()},
                   frozenset(line["absent"]), frozenset(line.get("excluded", ())))

    def nodes(self) -> dict[int, NodeId]:
        """By index."""
        return {index: NodeId(index, self.incarnations.get(index, 0))
                for index in range(self.size + self.spares) if index not in self.absent}


@dataclass(frozen=True)
class Fact:
    """What the adapter tells the master of a node.

    `words` say why the node waits, or how it ended; they are "" for one that runs.
    """

    node: NodeId
    is_gone: bool
    words: str

    def line(self) -> dict[str, Any]:
        """For `paceline place`."""
        who = {"name": self.node.name, "incarnation": self.node.incarnation}
        if self.is_gone:
            return {"gone": who | {"evidence": self.words}}
        return {"pending": who | {"reason": self.words}}


# A drained raylet without a deadline is given up when its actors have ended.
NO_DEADLINE_SECONDS = 600


@dataclass(frozen=True)
class Notice:
    """A node's raylet will be ended: `paceline` moves the node before that."""

    node: NodeId
    left_seconds: int

    def line(self) -> dict[str, Any]:
        """For `paceline place`."""
        return {"notice": {"name": self.node.name, "incarnation": self.node.incarnation,
                           "left_seconds": self.left_seconds, "why": "Ray drains its raylet"}}


def notices(places: Mapping[NodeId, str], draining: Mapping[str, int], now: float) -> list[Notice]:
    """The nodes on raylets that Ray drains.

    Args:
        places: Ray's id of the raylet of each node that runs.
        draining: by such an id, when the raylet ends, in milliseconds since 1970; 0: no deadline.
        now: in seconds since 1970.
    """
    return [
        Notice(node, max(0, int(ends / 1000 - now)) if ends else NO_DEADLINE_SECONDS)
        for node, place in sorted(places.items())
        if (ends := draining.get(place)) is not None
    ]


@dataclass(frozen=True)
class Decision:
    """Nodes to start, nodes to stop, and what to tell the master."""

    start: tuple[NodeId, ...]
    stop: tuple[NodeId, ...]
    facts: tuple[Fact, ...]


def decide(wish: Wish, seen: Iterable[Seen]) -> Decision:
    """Compare what is wished for with what is there."""
    newest: dict[int, Seen] = {}
    for one in sorted(seen, key=lambda each: each.node):
        newest[one.node.index] = one
    wanted = wish.nodes()
    start = [node for index, node in wanted.items()
             if not wish.drain
             and (index not in newest or newest[index].node.incarnation < node.incarnation)]
    stop = [one.node for one in seen
            if not wish.drain and one.state is not State.ENDED
            and (one.node.index not in wanted
                 or one.node.incarnation < wanted[one.node.index].incarnation)]
    facts = [_fact(newest[index]) for index, node in wanted.items()
             if index in newest and newest[index].node.incarnation >= node.incarnation]
    return Decision(tuple(start), tuple(stop), tuple(facts))


def _fact(one: Seen) -> Fact:
    if one.state is State.ENDED:
        return Fact(one.node, True, one.words or "has ended")
    words = "" if one.state is State.RUNS else one.words or "Ray starts its actor"
    return Fact(one.node, False, words)


def needs_text(resources: Mapping[str, float]) -> str:
    """What Ray has to have free for one node: "CPU 1, GPU 8 free on one raylet"."""
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items()) + (
        " free on one raylet")


def pending_text(nodes: Iterable[NodeId], resources: Mapping[str, float]) -> str:
    """The nodes that Ray has no room for, and what each of them needs; "": none."""
    names = [node.name for node in nodes]
    if not names:
        return ""
    if len(names) == 1:
        return f"Ray has no room for {names[0]}, which needs {needs_text(resources)}"
    return (f"Ray has no room for {', '.join(names[:-1])} and {names[-1]}; each needs "
            f"{needs_text(resources)}")


# Exit codes of `paceline run` that are the job's result (docs/errors.md). The next master goes on
# with a job whose master ended in another way.
_RESULTS = (0, 1, 2, 4, 11, 93)
_STOPPED = 143


def is_final(exit_code: int, *, is_asked: bool) -> bool:
    """Whether a master's exit code ends the job. `is_asked`: the master told of the end itself."""
    return exit_code in _RESULTS or (exit_code == _STOPPED and is_asked)
