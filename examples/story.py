"""What happened to a job, read from its events: phases over time, and one record an incident.

    paceline events --json > events.jsonl        # one JSON object a line, schema paceline.event/1

Two kinds of lines that a job does not write itself are understood as well. A driver that injects
faults adds them so that the moment of the fault is known, and not only that of its detection:

    {"kind": "fault_injected", "time_ns": …, "rank": 3, "step": 41, "text": "rank 3 killed"}
    {"kind": "progress", "time_ns": …, "step": 17}

Missing fields are tolerated, since a picture with a gap is better than none.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Phase(Enum):
    TRAINING = "training"
    FAULT = "fault"
    DETECT = "detect"
    DECIDE = "decide"
    RESTART = "restart"
    REDO = "redo"


@dataclass(frozen=True, kw_only=True)
class Span:
    """One lane in one phase for a while. Times are seconds since the Unix epoch."""

    lane: int
    begin: float
    end: float
    phase: Phase


@dataclass(frozen=True, kw_only=True)
class Move:
    """From `begin` on, the lane runs on this node."""

    lane: int
    begin: float
    node: str


@dataclass(kw_only=True)
class Incident:
    title: str
    fault_at: float
    of_master: bool = False
    injected: bool = False  # then its lanes are known; failures of others follow from it
    lanes: set[int] = field(default_factory=set)
    step: int = -1  # newest step when it happened
    saved_step: int = -1  # newest step that was safe then
    first_step: int = -1  # first one seen afterwards
    detected_at: float | None = None
    decided_at: float | None = None
    running_at: float | None = None
    caught_up_at: float | None = None
    rung: str = ""
    reason: str = ""

    @property
    def steps_redone(self) -> int:
        if self.of_master:
            return 0
        if self.saved_step >= 0:
            return max(0, self.step - self.saved_step)
        return max(0, self.step - self.first_step + 1) if self.first_step >= 0 else 0


@dataclass(kw_only=True)
class Story:
    begin: float = 0.0
    end: float = 0.0
    lanes: int = 0
    lane_name: str = "rank"
    spans: list[Span] = field(default_factory=list)
    master_spans: list[Span] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    steps: list[tuple[float, int]] = field(default_factory=list)  # (time, step), by time

    def step_at(self, time: float) -> int:
        """The newest step known at that time; -1 before the first."""
        known = -1
        for at, step in self.steps:
            if at > time:
                break
            known = step
        return known


LANES_MAX = 32  # a larger world gets one lane a node


def parse_events(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The events of a file, in order of time; lines that are no events are passed over."""
    events: list[dict[str, Any]] = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "kind" in event and (flat := _flatten(event)):
            events.append(flat)
    return sorted(events, key=lambda event: (event["time_ns"], event.get("seq", 0)))


def _flatten(event: dict[str, Any]) -> dict[str, Any] | None:
    """Details beside the other fields, nothing that is null, the time in nanoseconds."""
    details = event.get("details")
    flat: dict[str, Any] = dict(details) if isinstance(details, dict) else {}
    flat |= {name: value for name, value in event.items() if value is not None}
    for name in ("step", "saved_step", "incarnation", "rank"):
        if isinstance(flat.get(name), str):
            try:
                flat[name] = int(flat[name])
            except ValueError:
                del flat[name]
    if isinstance(seconds := flat.get("time"), int | float):
        flat.setdefault("time_ns", int(seconds * 1e9))
    flat.setdefault("text", flat.get("sentence", ""))
    return flat if isinstance(flat.get("time_ns"), int) else None


def read_story(events: list[dict[str, Any]]) -> Story:
    """Fold events, in order of time, to what a picture or a table needs."""
    reader = _Reader(_world_size(events))
    for event in events:
        reader.read(event)
    return reader.finish()


def _world_size(events: list[dict[str, Any]]) -> int:
    sizes = [
        member["first_rank"] + member["ranks"] for event in events for member in _members(event)
    ]
    return max(sizes, default=0)


def _members(event: dict[str, Any]) -> list[dict[str, Any]]:
    members = event.get("members") if event["kind"] == "world_formed" else None
    wanted = ("node", "first_rank", "ranks")
    return [member for member in members or [] if all(key in member for key in wanted)]


class _Reader:
    """One pass over the events. All lanes share a phase, but for those that failed."""

    def __init__(self, world_size: int) -> None:
        self.fold = world_size > LANES_MAX
        self.story = Story(lane_name="node" if self.fold else "rank")
        self.lanes_now: dict[int, str] = {}  # lane → node, in the newest world
        self.phase = Phase.RESTART
        self.since = 0.0
        self.master_since = 0.0
        self.open: Incident | None = None  # of the ranks
        self.open_master: Incident | None = None
        self.highest = -1

    def read(self, event: dict[str, Any]) -> None:
        now = event["time_ns"] / 1e9
        if not self.since:
            self.since = self.master_since = self.story.begin = now
        self.story.end = now
        kind = str(event["kind"])
        if handle := getattr(self, f"_on_{kind}", None):
            handle(now, event)
        self._note_step(now, event)

    def finish(self) -> Story:
        self._close_spans(self.story.end)
        span = Span(lane=0, begin=self.master_since, end=self.story.end, phase=Phase.TRAINING)
        self.story.master_spans.append(span)
        lanes = [move.lane for move in self.story.moves]
        self.story.lanes = max(lanes, default=-1) + 1
        return self.story

    def _note_step(self, now: float, event: dict[str, Any]) -> None:
        step = event.get("step")
        if not isinstance(step, int) or step < 0:
            return
        self.highest = max(self.highest, step)
        if event["kind"] in ("progress", "world_running", "progress_made"):
            self.story.steps.append((now, step))
        if event["kind"] == "progress" and self.phase is Phase.REDO:
            self._caught_up(now, step)

    def _change(self, now: float, phase: Phase) -> None:
        if phase is not self.phase:
            self._close_spans(now)
            self.phase, self.since = phase, now

    def _close_spans(self, now: float) -> None:
        failed = self.open.lanes if self.open else set[int]()
        waits = self.phase in (Phase.DETECT, Phase.DECIDE)
        for lane in self.lanes_now:
            phase = Phase.FAULT if lane in failed and waits else self.phase
            self.story.spans.append(Span(lane=lane, begin=self.since, end=now, phase=phase))

    def _lanes_of(self, event: dict[str, Any]) -> set[int]:
        rank, node = event.get("rank"), event.get("node")
        if isinstance(rank, int) and rank >= 0 and not self.fold:
            return {rank}
        return {lane for lane, name in self.lanes_now.items() if name == node}

    def _incident(self, now: float, event: dict[str, Any], title: str) -> Incident:
        """The incident that this event belongs to; a new one when training had come back."""
        if self.open is None or self.open.running_at is not None:
            self.open = Incident(title=title, fault_at=now, step=self.highest)
            self.story.incidents.append(self.open)
            self._change(now, Phase.DETECT)
        if str(event.get("explains", "")).lower() == "true" and not self.open.injected:
            self.open.title, self.open.lanes = title, set()  # the failure before followed from it
        if not self.open.injected:
            self.open.lanes |= self._lanes_of(event)
        return self.open

    def _on_fault_injected(self, now: float, event: dict[str, Any]) -> None:
        title = str(event.get("text", "fault"))
        if event.get("of_master"):
            self._close_master(now)
            self.open_master = Incident(title=title, fault_at=now, of_master=True)
            self.open_master.step = max(self.highest, int(event.get("step", -1)))
            self.story.incidents.append(self.open_master)
        else:
            self._incident(now, event, title).injected = True

    def _on_rank_failed(self, now: float, event: dict[str, Any]) -> None:
        self._detected(now, event, f"rank {event.get('rank', '?')} failed")

    def _on_node_lost(self, now: float, event: dict[str, Any]) -> None:
        self._detected(now, event, f"{event.get('node', 'a node')} lost")

    def _on_node_gone(self, now: float, event: dict[str, Any]) -> None:
        self._on_node_lost(now, event)

    def _detected(self, now: float, event: dict[str, Any], title: str) -> None:
        if not self._lanes_of(event) & set(self.lanes_now):
            return  # a spare, or a node of an older world: nobody who trains is hurt
        incident = self._incident(now, event, title)
        if incident.detected_at is None:
            incident.detected_at = now
            self._change(now, Phase.DECIDE)

    def _on_recovery_decided(self, now: float, event: dict[str, Any]) -> None:
        if self.open is None or self.open.running_at is not None:
            return
        self.open.decided_at = now
        self.open.rung = str(event.get("rung", ""))
        self.open.reason = str(event.get("reason") or event.get("text", ""))
        self.open.step = max(self.open.step, int(event.get("step", -1)))
        self.open.saved_step = int(event.get("saved_step", -1))
        self._change(now, Phase.RESTART)

    def _on_restore_decided(self, now: float, event: dict[str, Any]) -> None:
        """With flash checkpoints the step to go on from is known only when the new world is."""
        if self.open is not None and not self.open.of_master and event.get("from") != "nothing":
            self.open.saved_step = int(event.get("step", -1))

    def _on_world_formed(self, now: float, event: dict[str, Any]) -> None:
        self._change(now, Phase.RESTART)
        lanes: dict[int, str] = {}
        for seat, member in enumerate(_members(event)):
            first, count = int(member["first_rank"]), int(member["ranks"])
            for lane in (
                [int(member.get("seat", seat))] if self.fold else range(first, first + count)
            ):
                lanes[lane] = str(member["node"])
        if self.lanes_now and set(lanes) != set(self.lanes_now):
            self._close_spans(now)  # the world shrank or grew
            self.since = now
        for lane, node in sorted(lanes.items()):
            if self.lanes_now.get(lane) != node:
                self.story.moves.append(Move(lane=lane, begin=now, node=node))
        self.lanes_now = lanes

    def _on_world_running(self, now: float, event: dict[str, Any]) -> None:
        first = int(event.get("step", -1))
        if self.open and self.open.running_at is None:
            self.open.running_at, self.open.first_step = now, first
        behind = self.open is not None and 0 <= first < self.highest
        self._change(now, Phase.REDO if behind else Phase.TRAINING)
        if self.open and not behind:
            self.open.caught_up_at = now

    def _on_progress_made(self, now: float, _event: dict[str, Any]) -> None:
        if self.phase is Phase.REDO:
            self._caught_up(now, self.open.step + 1 if self.open else 0)

    def _caught_up(self, now: float, step: int) -> None:
        if self.open and step > self.open.step:
            self._change(now, Phase.TRAINING)
            self.open.caught_up_at = now

    def _on_master_took_over(self, now: float, event: dict[str, Any]) -> None:
        self._on_master_started(now, event)

    def _on_master_started(self, now: float, event: dict[str, Any]) -> None:
        if int(event.get("incarnation", 1)) <= 1:
            return
        if self.open_master is None:  # killed by somebody who left no note
            self._on_fault_injected(now, {"of_master": True, "text": "master restarted"})
        assert self.open_master is not None
        master, self.open_master = self.open_master, None
        master.detected_at = master.detected_at or now
        master.running_at = master.caught_up_at = now
        master.rung = "restart master"
        master.reason = str(event.get("text", ""))
        span = Span(lane=0, begin=self.master_since, end=now, phase=Phase.RESTART)
        self.story.master_spans.append(span)
        self.master_since = now

    def _close_master(self, now: float) -> None:
        span = Span(lane=0, begin=self.master_since, end=now, phase=Phase.TRAINING)
        self.story.master_spans.append(span)
        self.master_since = now
