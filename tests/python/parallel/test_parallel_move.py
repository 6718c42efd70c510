"""Layers of a pipeline move once, where a stage takes another time than predicted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ROOT
from paceline.parallel import move
from paceline.parallel.agree import Kept
from paceline.parallel.job import PlanNote
from paceline.parallel.move import Costs
from paceline.parallel.plan import ParallelPlan
from test_parallel_told import Place, place

__all__ = ["place"]

SCRIPT = ROOT / "tests/e2e/scripts/moving.py"


def plan_of(ends: list[int], shares: list[int] | None = None, **options: Any) -> ParallelPlan:
    shares = shares or [8]
    begins = [0, *ends[:-1]]
    stages = [
        {"layers": [begin, end], "ranks": [n * len(shares) + r for r in range(len(shares))]}
        for n, (begin, end) in enumerate(zip(begins, ends, strict=True))
    ]
    return ParallelPlan.parse(json.dumps({
        "schema": "paceline.plan/1", "model": "0" * 16, "global_batch": sum(shares),
        "data": len(shares), "tensor": 1, "shard": False, "recompute": False, "micro_batches": 4,
        "schedule": "1f1b", "stages": stages, "shares": shares, "unused": [],
        "predicted": {"step": 1.0, "compute": 1.0, "communication": 0.0, "bubble": 0.0,
                      "memory": [1] * len(ends)},
        "bound": 1.0, "because": "they are alike", "rejected": [], **options,
    }))  # fmt: skip


def cluster_of(count: int) -> str:
    kind = {"name": "cpu", "flops": 1e9, "bandwidth": 1e12, "launch": 1e-3, "memory": 1 << 30,
            "source": "measured"}  # fmt: skip
    return json.dumps({"types": [kind], "groups": [{"type": "cpu", "count": count}]})


LAYERS = [Costs(flops=1e8, saved=0.0, fixed=0.0)] * 8  # 0.1 s a sample


# ---- what measured times say ----


def test_a_stage_takes_what_the_cost_model_says() -> None:
    plan = plan_of([2, 8])
    # Eight samples and four passes, each of which starts the layer once; backward takes two.
    assert move.stage_seconds(plan, LAYERS, cluster_of(2)) == pytest.approx(
        [2 * 3 * (8 * 0.1 + 4e-3), 6 * 3 * (8 * 0.1 + 4e-3)])  # fmt: skip
    recomputed = plan_of([2, 8], recompute="full")
    assert move.stage_seconds(recomputed, LAYERS, cluster_of(2))[0] == pytest.approx(6.432)


def test_the_slowest_replica_of_a_stage_counts() -> None:
    plan = plan_of([4, 8], shares=[4, 4])
    each = move.stage_seconds(plan, LAYERS, cluster_of(4))[0]
    ratios = move.ratios_of(plan, LAYERS, cluster_of(4), [each, each, each, 2 * each])
    assert ratios == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize(("ratios", "off"), [
    ([1.0, 1.14], False), ([0.86, 1.0], False), ([1.0, 1.16], True), ([0.8, 1.0], True),
    ([0.0, 3.0], False),  # a stage that nobody timed
])  # fmt: skip
def test_fifteen_percent_is_off(ratios: list[float], off: bool) -> None:
    assert move.is_off(ratios) is off


def moves_at(looks: list[tuple[float, list[float]]]) -> float | None:
    """When layers move, for looks at these times, in seconds."""
    now = [0.0]
    evidence = move.Evidence(lambda: now[0])
    for now[0], ratios in looks:
        if evidence.lasts(ratios):
            return now[0]
    return None


@pytest.mark.parametrize("looks", [
    # A burst of load: one window, two windows of other heights, two windows close together.
    [(2.0, [6.4, 1.1]), (20.0, [1.02, 1.0]), (40.0, [1.0, 1.01])],
    [(2.0, [6.4, 1.1]), (20.0, [2.4, 1.7]), (40.0, [1.0, 1.01]), (80.0, [1.0, 1.0])],
    [(0.2, [6.4, 1.1]), (0.4, [6.2, 1.0]), (0.8, [1.0, 1.0]), (1.6, [1.1, 1.0])],
    # Load that comes again, now on this stage and now on that one.
    [(2.0, [2.0, 1.0]), (20.0, [1.0, 2.0]), (40.0, [2.0, 1.0]), (80.0, [1.0, 2.0])],
])  # fmt: skip
def test_load_that_passes_moves_no_layers(looks: list[tuple[float, list[float]]]) -> None:
    assert moves_at(looks) is None


def test_a_stage_that_stays_slow_moves_layers() -> None:
    assert moves_at([(2.0, [1.02, 2.0]), (20.0, [0.98, 2.1])]) == 20.0
    # Short steps: the looks are close together at first.
    short = [(2**n / 10, [1.0 + n / 100, 2.0 + n / 50]) for n in range(9)]
    assert moves_at(short) == 12.8
    burst = [(2.0, [9.0, 1.2]), (20.0, [1.0, 2.0]), (40.0, [1.0, 2.0])]
    assert moves_at(burst) == 40.0


def test_devices_are_as_fast_as_their_stages_were() -> None:
    found = json.loads(move.as_measured(cluster_of(3), plan_of([4, 8]), [1.0, 2.0]))
    names = [one["type"] for one in found["groups"]]
    assert names == ["cpu at 1 of its speed", "cpu at 0.5 of its speed", "cpu"]
    kinds = {one["name"]: one for one in found["types"]}
    slow = kinds["cpu at 0.5 of its speed"]
    assert (slow["flops"], slow["bandwidth"], slow["launch"]) == (5e8, 5e11, 2e-3)


def better(new: ParallelPlan, monkeypatch: pytest.MonkeyPatch) -> move.Found:
    """Whether it pays to move from four layers each, when the second device is half as fast."""
    monkeypatch.setattr(move.planner, "digest", lambda text: text)
    plan = plan_of([4, 8])
    rows = [a * b for a, b in zip(move.stage_seconds(plan, LAYERS, cluster_of(2)), [1, 2],
                                  strict=True)]  # fmt: skip
    faster = move.as_measured(cluster_of(2), plan, [1.0, 2.0])
    return move.better(plan, new.text, LAYERS, faster, [1.0, 2.0], rows)


def test_a_better_cut_is_taken_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = better(plan_of([5, 8]), monkeypatch)
    assert found.is_over
    assert found.because == "stage 1 took 100 % longer than predicted, and a step is to take 19 " \
                            "% less: they are alike"  # fmt: skip
    assert ParallelPlan.parse(found.plan).because == found.because


@pytest.mark.parametrize("ends", [[4, 8], [3, 8]])
def test_the_same_and_a_worse_cut_are_not(ends: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert better(plan_of(ends), monkeypatch) == move.Found("", "", is_over=True)


# ---- the checkpoint ----


def test_a_save_has_both_plans_until_the_layers_have_moved() -> None:
    note = PlanNote(Kept("now", "q", [["cpu", 2]]))
    note.state_dict()
    assert not note.coming.is_saved and "next" not in note.state_dict()
    note.coming.plan = "next"
    saved = note.state_dict()
    assert note.coming.is_saved
    other = PlanNote(None)
    other.load_state_dict(saved)
    assert other.found is not None
    assert (other.found.plan, other.found_next) == ("now", "next")


# ---- the whole way ----


def steps_of(place: Place) -> list[list[Any]]:
    return [json.loads(line) for line in (place.path / "out/steps").read_text().splitlines()]


def difference(place: Place, other: Place) -> float:
    found, wanted = (torch.load(one.path / "out/weights.pt") for one in (place, other))
    return max(float((found[name] - one).abs().max()) for name, one in wanted.items())


def train(place: Place, *words: str, ranks: int = 2) -> str:
    return place.run("--nproc-per-node", str(ranks), str(SCRIPT), "--out", "out", *words)


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    (tmp_path / "alone").mkdir()
    return Place(tmp_path / "alone")


def test_layers_leave_a_slow_stage_and_no_step_is_lost(place: Place, alone: Place) -> None:
    out = train(place)
    steps = steps_of(place)
    assert [step for _, step, _, _ in steps] == list(range(60)), "each step once"
    first, last = steps[0], steps[-1]
    assert (first[0], first[3]) == (1, [[0, 4], [4, 8]])
    assert last[0] == 2 and last[3][0][1] > 4, "the slow stage has fewer layers"
    assert "Done after 2 worlds and 0 failures of ranks." in out
    text = place.told("events")
    assert re.search(r"move layers: data 1 × pipeline 2 .* (instead of .*|with other layers), as "
                     r"stage 1 took 200 % longer than predicted, and a step is to take \d+ % less",
                     text), text  # fmt: skip
    assert "world 1 ended at step" in text and "its layers move" in text
    assert "rank_failed" not in place.told("events", "--json")
    assert "stage 1 took" in place.told("plan", "--show")
    status = json.loads(place.told("status", "--json"))
    assert status["plan"]["generation"] == 2 and "stage 1 took" in status["plan"]["sentence"]
    train(alone, ranks=1)
    assert difference(place, alone) < 1e-5


@pytest.mark.long
def test_a_rank_that_dies_during_the_move_costs_no_step(place: Place, alone: Place) -> None:
    """Storage may or may not have the save by then: the world goes on under one plan or the other.
    """
    train(place, "--kill-after", "0")
    steps = steps_of(place)
    assert [step for _, step, _, _ in steps] == list(range(60)), place.told("events")
    second = [stages for world, _, _, stages in steps if world > 1]
    assert second and second.count(second[0]) == len(second)
    train(alone, ranks=1)
    assert difference(place, alone) < 1e-5


@pytest.mark.long
def test_a_pipeline_that_is_as_predicted_stays(place: Place) -> None:
    train(place, "--slow", "1")
    assert {(world, tuple(map(tuple, stages))) for world, _, _, stages in steps_of(place)} == {
        (1, ((0, 4), (4, 8)))}
