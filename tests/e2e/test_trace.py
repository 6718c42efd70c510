"""`paceline trace`: read back with the schema of Perfetto's own package."""

from __future__ import annotations

import os
import signal
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from false_clock import FalseClock, needs_compiler
from hosts import Host, needs_hosts, start, until_training
from job import SCRIPTS, Job, eventually

trace_pb2 = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2",
    reason="TRACES NOT TESTED: there is no `perfetto` in this environment")
TWO = ["--standalone", "--nproc-per-node", "2"]
PACED = [str(SCRIPTS / "paced.py"), "--steps", "1000000"]


class Traced:
    """The tracks of a trace, by their names from the outermost on."""

    def __init__(self, content: bytes) -> None:
        trace = trace_pb2.Trace()
        trace.ParseFromString(content)
        names: dict[int, tuple[str, ...]] = {}
        self.events: dict[tuple[str, ...], list[Any]] = defaultdict(list)
        last = 0
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                names[track.uuid] = (*names.get(track.parent_uuid, ()), track.name)
                self.events[names[track.uuid]] = []
                continue
            assert packet.timestamp >= last  # in order of time
            last = packet.timestamp
            self.events[names[packet.track_event.track_uuid]].append(packet)
        assert all(uuid for uuid in names)

    def stretches(self, *track: str) -> list[tuple[str, int, int]]:
        """Name, begin and end; of a track whose stretches do not overlap."""
        found = []
        begun = None
        for packet in self.events[track]:
            event = packet.track_event
            if event.type == event.TYPE_SLICE_BEGIN:
                assert begun is None, f"{track}: {event.name} begins inside {begun}"
                begun = (event.name, packet.timestamp)
            elif event.type == event.TYPE_SLICE_END:
                assert begun is not None
                found.append((*begun, packet.timestamp))
                begun = None
        assert begun is None
        return found


    def ends(self, *track: str) -> dict[tuple[str, str], int]:
        """When each complete collective of the track ended, by its group and number there."""
        found = {}
        name: tuple[str, str] | None = None
        for packet in self.events[track]:
            event = packet.track_event
            if event.type == event.TYPE_SLICE_BEGIN:
                notes = {note.name: note.string_value for note in event.debug_annotations}
                is_counted = "state" not in notes and "number in its group" in notes
                name = (notes["group"], notes["number in its group"]) if is_counted else None
            elif name is not None:
                found[name] = packet.timestamp
                name = None
        return found


def traced(job: Job, *words: str) -> Traced:
    trace, said = trace_and_words(job, *words)
    assert "2 ranks" in said, said
    return trace


def trace_and_words(job: Job, *words: str) -> tuple[Traced, str]:
    path = job.directory / "job.pftrace"
    done = job.command("trace", "--job", str(job.run_dir), "-o", str(path), *words)
    assert done.returncode == 0, done
    return Traced(path.read_bytes()), done.stderr


def test_a_trace_has_ranks_collectives_and_the_incident(job: Job) -> None:
    job.be_patient().start(TWO, PACED)
    ranks = job.until_stepping(2)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.until_event("world_running", 2)
    job.until_stepping(2)
    trace = traced(job, "--last", "1h")
    group = f"job {job.card['id']}"
    worlds = trace.stretches(group, "worlds")
    assert [name for name, *_ in worlds] == ["world 1", "world 2"]
    ((_, broke, trained),) = trace.stretches(group, "incidents")
    assert worlds[0][2] == broke < trained
    kinds = [packet.track_event.name for packet in trace.events[group, "events"]]
    assert kinds == [event["kind"] for event in job.events()][:len(kinds)]
    assert "rank_failed" in kinds
    for rank in range(2):
        name = f"rank {rank} on node0"
        assert trace.stretches(name, "phase")
        collectives = trace.stretches(name, "collectives")
        assert any("reduce" in operation for operation, *_ in collectives), collectives
        assert all(end >= begin for _, begin, end in collectives)
        # Rings are on the clock of the events: each is of world 2.
        assert min(begin for _, begin, _ in collectives) >= worlds[1][1]


def test_a_trace_has_no_more_than_was_asked_for(job: Job) -> None:
    job.be_patient().start(TWO, PACED)
    job.until_stepping(2)
    trace = traced(job, "--last", "1ms")
    times = [packet.timestamp for packets in trace.events.values() for packet in packets]
    assert max(times) - min(times) <= 1_000_000
    missing = job.directory / "no such" / "job.pftrace"
    refused = job.command("trace", "--job", str(job.run_dir), "-o", str(missing))
    assert refused.returncode != 0 and f"mkdir -p '{missing.parent}'" in refused.stderr, refused


def test_without_ranks_there_is_nothing_to_trace(job: Job) -> None:
    job.start_steps(TWO, steps=1)
    assert job.wait() == 0
    done = job.command("trace", "--job", str(job.run_dir))
    assert done.returncode != 0 and "no rank of the job has left a trace" in done.stderr


def train_on_two(hosts: list[Host]) -> None:
    first, second, _ = hosts
    first.job.be_patient()
    start([first, second], "--nnodes", "2", script=PACED)
    until_training(first, 2)
    eventually(lambda: all(rank["step_count"] > 30 for rank in until_training(first, 2).values()),
               "thirty steps, each with a collective", job=first.job)


@needs_hosts
@needs_compiler
def test_a_trace_has_the_ranks_of_all_hosts_on_one_clock(hosts: list[Host], tmp_path: Path) -> None:
    """Typed on either host, although the wall clock of the other one is wrong by 40 s."""
    first, second, _ = hosts
    clock = FalseClock(tmp_path)
    clock.set(40)
    second.job.env |= clock.env
    train_on_two(hosts)
    for host in (first, second):
        trace, said = trace_and_words(host.job, "--last", "1h")
        assert "2 ranks" in said and "missing" not in said and "by the clock" not in said, said
        worlds = trace.stretches(f"job {first.job.card['id']}", "worlds")
        ends = [trace.ends(f"rank {i} on host{i}", "collectives") for i in range(2)]
        both = ends[0].keys() & ends[1].keys()
        assert len(both) >= 20, ends
        # The median, because a rank may stand still after one of them.
        apart = statistics.median(abs(ends[0][name] - ends[1][name]) for name in both)
        assert apart < 1e9, f"{apart} ns apart, seen from {host.name}"
        assert min(ends[1][name] for name in both) >= worlds[-1][1]


@needs_hosts
def test_a_host_that_does_not_answer_is_named_and_the_trace_has_the_rest(
        hosts: list[Host]) -> None:
    first, second, _ = hosts
    train_on_two(hosts)
    agent = second.job.agent_pid(second.name)
    os.kill(agent, signal.SIGSTOP)
    try:
        trace, said = trace_and_words(first.job)
        assert "1 rank," in said, said
        assert "ranks of host1 are missing: its agent has not answered" in said, said
        assert trace.stretches("rank 0 on host0", "phase")
        # On its own host the command reads what the agent does not tell.
        trace, said = trace_and_words(second.job)
        assert "2 ranks" in said and "missing" not in said, said
        assert trace.stretches("rank 1 on host1", "phase")
    finally:
        os.kill(agent, signal.SIGCONT)
