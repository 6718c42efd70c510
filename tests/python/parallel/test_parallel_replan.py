"""A plan is corrected once, where its steps take another time than predicted."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import DEADLINE_S
from paceline._data.cut import Clock
from paceline._data.order import ElasticDataset
from paceline.parallel import planner
from paceline.parallel.loader import PlannedLoader
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.replan import Corrected, PlannedCutter, corrected, largest_share

HERE = Path(__file__).parent


def plan_of(shares: list[int], seconds: float) -> ParallelPlan:
    return ParallelPlan.parse(json.dumps({
        "schema": "paceline.plan/1", "model": "0" * 16, "global_batch": sum(shares),
        "data": len(shares), "tensor": 1, "shard": False, "recompute": False, "micro_batches": 1,
        "schedule": "none", "stages": [{"layers": [0, 2], "ranks": list(range(len(shares)))}],
        "shares": shares, "unused": [],
        "predicted": {"step": seconds + 0.01, "compute": seconds, "communication": 0.01,
                      "bubble": 0.0, "memory": [1000]},
        "bound": seconds, "because": "they are alike", "rejected": [],
    }))  # fmt: skip


class Ranks:
    """The cutters of all replicas, with the seconds that a sample takes each of them."""

    def __init__(self, plan: ParallelPlan, seconds: list[float], most: int = 64) -> None:
        self.rows: list[list[float]] = []
        self.changes: list[Corrected] = []
        self.now = 0.0
        self.seconds = seconds
        self.loaders = []
        for rank in range(plan.data):
            cutter = PlannedCutter(plan, most, lambda _: self.rows, self.changes.append)
            cutter.use_clock(Clock(mark=lambda: self.now))
            data = ElasticDataset(range(20_000), seed=3)
            self.loaders.append(PlannedLoader(data, plan, rank, cutter=cutter))

    def train(self, steps: int) -> list[list[int]]:
        """The shares of each step."""
        found = []
        passes = [iter(loader) for loader in self.loaders]
        for _ in range(steps):
            # Every rank's row has to be there before the first one looks.
            self.rows = [self._row(loader) for loader in self.loaders]
            sizes = [len(next(one)) for one in passes]
            found.append(sizes)
            for loader, size, each in zip(self.loaders, sizes, self.seconds, strict=True):
                self.now = 0.0
                loader.by_speed.begin()
                self.now = size * each
                loader.worked()
        return found

    def _row(self, loader: PlannedLoader) -> list[float]:
        place = (loader.epoch, loader.consumed)
        return [] if loader.by_speed is None else loader.by_speed._row(place)


def test_a_plan_that_is_right_stays() -> None:
    ranks = Ranks(plan_of([12, 12], 0.12), [0.01, 0.0105])
    assert ranks.train(100) == [[12, 12]] * 100
    assert ranks.changes == []


def test_a_plan_that_is_wrong_is_corrected_once_by_all_ranks() -> None:
    ranks = Ranks(plan_of([12, 12], 0.12), [0.01, 0.03])
    shares = ranks.train(100)
    assert shares[:16] == [[12, 12]] * 16, "a speed needs three looks"
    assert shares[-1][0] > shares[-1][1] and {sum(one) for one in shares} == {24}
    assert sum(a != b for a, b in itertools.pairwise(shares)) == 1
    first, second = ranks.changes
    assert first == second
    assert first.shares == shares[-1]
    assert first.because.startswith("the steps took 200 % longer than predicted: shares ")
    assert first.seconds < 0.3, "0.36 s before"
    # What a checkpoint holds goes on with the corrected plan, and not with the one before.
    saved = ranks.loaders[0].by_speed.state((0, 2400))
    assert ranks.loaders[1].by_speed._fitting(saved)[-1].shares == shares[-1]


def test_a_saved_cut_of_another_plan_does_not_go_on() -> None:
    def cutter(shares: list[int]) -> PlannedCutter:
        return PlannedCutter(plan_of(shares, 1.0), 64, lambda row: [row], lambda _: None)

    saved = cutter([8, 16]).state((0, 24))
    assert cutter([8, 16])._fitting(saved)[-1].shares == [8, 16]
    assert cutter([12, 12])._fitting(saved)[-1].shares == [12, 12]
    assert cutter([12, 12])._fitting(None)[-1].shares == [12, 12]


def test_a_share_grows_as_far_as_memory_suffices() -> None:
    plan = plan_of([12, 12], 1.0)  # which needs 1000 bytes
    assert largest_share(plan, 0) == 12
    assert largest_share(plan, 900) == 12
    assert largest_share(plan, 1500) == 18
    assert largest_share(plan, 10_000) == 24


def test_a_corrected_plan_predicts_what_was_measured() -> None:
    before = plan_of([12, 12], 1.0)
    now = corrected(before, Corrected([8, 16], 2.5, "it was slow"))
    assert planner.digest(now.text) != planner.digest(before.text), "another plan for all ranks"
    assert (now.shares, now.because) == ([8, 16], "it was slow")
    assert now.step_seconds == pytest.approx(2.51)
    assert now.own_seconds == 2.5


@pytest.mark.long
def test_a_slow_rank_gets_less_and_the_weights_are_those_of_one_process(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PACELINE_", "PET_"))}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "replan_world.py")], check=False, capture_output=True,
        text=True, env=environment, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    first, last = found["shares"][0], found["shares"][-1]
    assert first == [12, 12] and last[1] < last[0], "the slow rank has less"
    changes = sum(a != b for a, b in itertools.pairwise(found["shares"]))
    assert changes == 1, "it is corrected once"
    assert "than predicted: shares" in found["because"]
    assert found["plan_shares"] == last
    assert found["difference"] < 1e-5
