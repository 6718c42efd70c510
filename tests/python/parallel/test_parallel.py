"""Training by a plan is training in one process: one world of four ranks runs every plan."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import DEADLINE_S
from once import made_once
from parallel_cases import CASES, EIGHT, FURTHER, Case

HERE = Path(__file__).resolve().parent
APART = 5e-6  # what order of summation may cost


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the four ranks tells, by the name of the case."""
    return json.loads(made_once(tmp_path_factory, "parallel_world", told))


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return json.loads(made_once(tmp_path_factory, "further_world", lambda: told("further")))


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return json.loads(made_once(tmp_path_factory, "world_of_eight", lambda: told("eight")))


def told(*words: str) -> str:
    command = [sys.executable, str(HERE / "parallel_world.py"), *words]
    done = subprocess.run(
        command, check=False, cwd=HERE, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_trains_as_one_process(case: Case, rows: list[dict[str, Any]]) -> None:
    check(case, rows, APART)


@pytest.mark.long
@pytest.mark.parametrize("case", FURTHER, ids=lambda case: case.name)
def test_a_further_plan_trains_as_one_process(
    case: Case, further: list[dict[str, Any]]
) -> None:
    check(case, further, APART)


@pytest.mark.long
@pytest.mark.parametrize("case", EIGHT, ids=lambda case: case.name)
def test_three_ways_together_train_as_one_process(
    case: Case, eight: list[dict[str, Any]]
) -> None:
    # Parts of a sum of bf16 are rounded before they are added up.
    check(case, eight, APART if case.precision == "fp32" else 5e-4)


def check(case: Case, rows: list[dict[str, Any]], apart: float) -> None:
    errors = [row[case.name]["error"] for row in rows if "error" in row.get(case.name, {})]
    assert not errors, errors[0]
    assert all(case.name in row for row in rows), "a case before this one failed"
    first = rows[0][case.name]
    assert first["names"], "the undivided model has other tensors"
    assert first["moved"] > 1e-3, "it has learned something"
    assert max(first["apart"].values()) < apart, first["apart"]
    for row in rows:
        for key in ("losses", "norms", "mean", "sum", "plan"):
            assert row[case.name][key] == first[key], "ranks see different numbers"
