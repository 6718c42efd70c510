"""What the demo demands of a story, and how it shows one."""

import json
from typing import Any

from demo import Status, check, check_samples, samples_row, table
from samples import count_samples
from story import Story
from timeline_test import story_of, three_faults

SAME = ("abc", "abc")


def changed(old: str, new: str) -> Story:
    return story_of([line.replace(old, new) for line in three_faults()])


def rank_json(rank: int, **more: Any) -> dict[str, Any]:
    pid = 100 + rank
    return {"rank": rank, "pid": pid, "generation": 2, "step": 7, "exit": None, **more}


def test_three_survived_faults_and_equal_weights_are_all_well():
    assert check(story_of(three_faults()), SAME) == []


def test_other_weights_are_a_failure():
    (wrong,) = check(story_of(three_faults()), ("abc", "abd"))
    assert "final weights differ" in wrong


def test_another_rung_is_a_failure():
    (wrong,) = check(changed("replace node", "shrink"), SAME)
    assert wrong == "node: expected the rung 'replace node', not 'shrink'"


def test_survivors_that_change_their_node_are_a_failure():
    lines = [
        line.replace('"node1"', '"node4"') if '"generation": 3' in line else line
        for line in three_faults()
    ]
    (wrong,) = check(story_of(lines), SAME)
    assert wrong == "node: ranks [4, 5] were lost, but [2, 3, 4, 5] moved"


def test_a_missing_incident_is_a_failure():
    kept = [line for line in three_faults() if "master" not in line]
    (wrong,) = check(story_of(kept), SAME)
    assert "2 incidents instead of 3" in wrong


def test_the_table_says_what_each_fault_cost():
    rows = table(story_of(three_faults())).splitlines()
    assert rows[1].split() == ["rank", "3", "killed,", "step", "20", "8", "ms", "400", "ms", "5"]
    assert "never stopped" in rows[-2]


def test_ranks_of_an_older_world_and_those_that_are_starting_are_not_in_the_status():
    nodes = [
        {"name": "a", "agent_pid": 5, "ranks": [rank_json(1), rank_json(0, step=None)]},
        {"name": "b", "agent_pid": 6, "ranks": [rank_json(2, generation=1)]},
        {"name": "c", "agent_pid": 7, "ranks": [rank_json(3, exit="killed by SIGKILL")]},
        {"name": "d", "agent_pid": None, "ranks": [rank_json(4, pid=None)]},
    ]
    told = {
        "job": {"goodput": None},
        "master": {"pid": 9},
        "world": {"generation": 2, "size": 6},
        "nodes": nodes,
    }
    now = Status.parse(json.dumps(told))
    assert now is not None
    assert [(rank.rank, rank.node, rank.step) for rank in now.ranks] == [(0, "a", -1), (1, "a", 7)]
    assert (now.master, now.agents, now.step) == (9, {"a": 5, "b": 6, "c": 7}, 7)


def test_a_job_without_its_master_has_no_status():
    told = {"job": {}, "master": {"pid": None}, "world": {"generation": 1}, "nodes": []}
    assert Status.parse(json.dumps(told)) is None


def test_lost_and_repeated_samples_are_a_failure():
    lines = ["1 0 0 0 1", "1 1 0 2", "1 2 1 1 2"]
    good = count_samples(lines, samples=3)
    assert check_samples(good, good) == []
    assert samples_row(good, good).startswith("samples: 5 read, 0 lost, 0 repeated")
    (wrong,) = check_samples(count_samples([*lines, "2 1 0 1"], samples=3), good)
    assert wrong == "with faults: 1 samples were lost and 1 repeated"
