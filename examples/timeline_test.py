"""The timeline of an invented job: three faults, and every field that may be missing."""

import json
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

from story import Phase, Story, parse_events, read_story
from timeline import duration, facts, render

START_NS = 1_795_000_000_000_000_000


def at(milliseconds: float, kind: str, **fields: Any) -> str:
    event = {"kind": kind, "time_ns": START_NS + int(milliseconds * 1e6), **fields}
    return json.dumps(event)


def world(milliseconds: float, generation: int, nodes: list[str]) -> str:
    members = [
        {"node": node, "seat": seat, "first_rank": 2 * seat, "ranks": 2}
        for seat, node in enumerate(nodes)
    ]
    return at(milliseconds, "world_formed", generation=generation, members=members)


def steps(begin: float, end: float, *, first: int) -> list[str]:
    count = int((end - begin) / 100)
    return [at(begin + 100 * n, "progress", step=first + n) for n in range(count)]


def three_faults() -> list[str]:
    """A rank dies at 6 s, a node at 10 s, the master at 15 s; a step takes 100 ms."""
    return [
        at(0, "job_created"),
        at(2, "master_started", incarnation=1),
        world(40, 1, ["node0", "node1", "node2"]),
        at(4000, "world_running", generation=1, step=1),
        *steps(4100, 6000, first=2),
        at(6000, "fault_injected", rank=3, step=20, text="rank 3 killed"),
        at(6008, "rank_failed", node="node1", rank=3, step=20, cause="killed by SIGKILL"),
        at(6009, "recovery_decided", rung="restart process", step=20, saved_step=15,
           reason="rank 3 was killed by SIGKILL, from outside the job; its node is healthy"),
        world(6010, 2, ["node0", "node1", "node2"]),
        at(6400, "world_running", generation=2, step=16),
        *steps(6500, 10000, first=17),
        at(10000, "fault_injected", node="node2", step=51, text="node2 killed"),
        at(10055, "node_gone", node="node2"),
        at(10056, "recovery_decided", rung="replace node", step=51, saved_step=50,
           reason="node2 is gone with its ranks; spare node3 takes its seat"),
        world(10058, 3, ["node0", "node1", "node3"]),
        at(10600, "world_running", generation=3, step=51),
        *steps(10700, 15000, first=52),
        at(15000, "fault_injected", of_master=True, step=94, text="master killed"),
        at(15200, "master_started", incarnation=2, text="the journal was read again"),
        *steps(15000, 18000, first=95),
        at(18000, "job_finished", step=125),
    ]  # fmt: skip


def story_of(lines: list[str]) -> Story:
    return read_story(parse_events(lines))


def lane_phases(story: Story, lane: int) -> list[Phase]:
    return [span.phase for span in story.spans if span.lane == lane and span.end > span.begin]


def test_each_fault_becomes_an_incident_with_its_times():
    rank, node, master = story_of(three_faults()).incidents
    assert (rank.title, rank.lanes, rank.steps_redone) == ("rank 3 killed", {3}, 5)
    assert facts(rank) == ["detected 8 ms", "training again 400 ms", "5 steps redone"]
    assert (node.title, node.lanes, node.rung) == ("node2 killed", {4, 5}, "replace node")
    assert facts(node) == ["detected 55 ms", "training again 600 ms", "1 step redone"]
    assert facts(master) == ["serving again 200 ms", "no step lost"]


def test_the_failed_lane_is_dead_while_the_others_do_not_know():
    story = story_of(three_faults())
    healed = [Phase.RESTART, Phase.REDO, Phase.TRAINING]
    assert lane_phases(story, 3)[:6] == [*healed[::2], Phase.FAULT, Phase.FAULT, *healed[:2]]
    assert lane_phases(story, 0)[:5] == [*healed[::2], Phase.DETECT, Phase.DECIDE, Phase.RESTART]


def test_spans_of_a_lane_follow_each_other_without_hole_or_overlap():
    story = story_of(three_faults())
    for lane in range(story.lanes):
        spans = [span for span in story.spans if span.lane == lane]
        for before, after in pairwise(spans):
            assert before.end == after.begin
        assert (spans[0].begin, spans[-1].end) == (story.begin, story.end)


def test_the_spare_is_named_where_it_takes_over():
    moves = story_of(three_faults()).moves
    assert [(move.lane, move.node) for move in moves[6:]] == [(4, "node3"), (5, "node3")]


def test_a_fault_without_a_note_begins_when_it_is_detected():
    lines = [line for line in three_faults() if "fault_injected" not in line]
    titles = [incident.title for incident in story_of(lines).incidents]
    assert titles == ["rank 3 failed", "node2 lost", "master restarted"]


def test_a_failure_that_followed_from_another_is_not_counted_as_dead():
    cut = at(10020, "rank_failed", node="node0", rank=0, cause="connection reset")
    injected = [*three_faults(), cut]
    assert story_of(injected).incidents[1].lanes == {4, 5}
    told = [line.replace('"node_gone"', '"node_lost", "explains": true') for line in injected]
    unknown = story_of([line for line in told if "fault_injected" not in line])
    assert (unknown.incidents[1].title, unknown.incidents[1].lanes) == ("node2 lost", {4, 5})


def test_a_lost_spare_is_no_incident():
    lines = [*three_faults()[:8], at(5000, "node_lost", node="node9")]
    assert story_of(lines).incidents == []


def test_a_smaller_world_leaves_lanes_empty():
    lines = [
        world(0, 1, ["a", "b"]),
        at(100, "world_running", step=1),
        at(500, "node_lost", node="b"),
        at(501, "recovery_decided", rung="shrink", reason="no spare"),
        world(502, 2, ["a"]),
        at(600, "world_running", step=5),
        at(1000, "job_finished"),
    ]
    story = story_of(lines)
    last = {
        lane: max(s.end for s in story.spans if s.lane == lane) - story.begin for lane in (0, 3)
    }
    assert (round(last[0], 3), round(last[3], 3)) == (1.0, 0.502)


def test_a_large_world_has_one_lane_a_node():
    members = [{"node": f"n{i}", "first_rank": 8 * i, "ranks": 8} for i in range(8)]
    story = story_of([at(0, "world_formed", members=members), at(9, "node_lost", node="n5")])
    assert (story.lanes, story.lane_name, story.incidents[0].lanes) == (8, "node", {5})


def test_details_and_seconds_are_understood_too():
    details = {"rung": "wait", "saved_step": "7", "step": "x"}
    event = {"kind": "recovery_decided", "time": 1.5, "step": None, "details": details}
    (flat,) = parse_events([json.dumps(event)])
    assert (flat["time_ns"], flat["rung"], flat["saved_step"]) == (1_500_000_000, "wait", 7)
    assert "step" not in flat


def test_odd_lines_are_passed_over():
    odd = ["", "no json", "[]", "{}", '{"kind": "x"}', at(1, "unheard_of"), at(2, "world_formed")]
    odd += [at(3, "rank_failed"), at(4, "recovery_decided"), at(5, "world_running")]
    story = story_of(odd)
    assert story.lanes == 0
    ElementTree.fromstring(render(story))


def test_the_picture_is_well_formed_and_says_what_happened():
    picture = render(story_of(three_faults()))
    assert ElementTree.fromstring(picture).get("viewBox", "").startswith("0 0 900 ")
    for words in (
        "rank 3 killed at step 20",
        "node3",
        "no step lost",
        "replace node: node2 is gone",
    ):
        assert words in picture


def test_markup_in_a_reason_stays_text():
    lines = [line.replace("node2 is gone", "<b>&") for line in three_faults()]
    page = ElementTree.fromstring(render(story_of(lines)))
    assert "<b>&" in "".join(page.itertext())


def test_durations_are_short():
    shown = [duration(seconds) for seconds in (0, 0.0001, 0.41, 3.0, 3.24, 40, 720)]
    assert shown == ["0", "1 ms", "410 ms", "3 s", "3.2 s", "40 s", "12 min"]
