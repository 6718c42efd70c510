"""Training by a plan is training in one process: one world of four ranks runs every plan."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from parallel_cases import CASES, Case

HERE = Path(__file__).resolve().parent
APART = 5e-6  # what order of summation may cost


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What each of the four ranks tells, by the name of the case."""
    command = [sys.executable, str(HERE / "parallel_world.py")]
    done = subprocess.run(
        command, check=False, cwd=HERE, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_trains_as_one_process(case: Case, rows: list[dict[str, Any]]) -> None:
    errors = [row[case.name]["error"] for row in rows if "error" in row.get(case.name, {})]
    assert not errors, errors[0]
    assert all(case.name in row for row in rows), "a case before this one failed"
    first = rows[0][case.name]
    assert first["names"], "the undivided model has other tensors"
    assert first["moved"] > 1e-3, "it has learned something"
    assert max(first["apart"].values()) < APART, first["apart"]
    for row in rows:
        for key in ("losses", "norms", "mean", "sum", "plan"):
            assert row[case.name][key] == first[key], "ranks see different numbers"
