"""Policies for many jobs on one cluster, simulated: what the command shows and refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from job import binary
from test_commands import checked


def pool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(binary()), "pool", *words], capture_output=True, text=True,
                          check=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first jobs of a made trace."""
    printed = pool("trace", "--seed", "3")
    assert printed.returncode == 0, printed.stderr
    made = json.loads(printed.stdout)
    made["jobs"] = made["jobs"][:40]
    path = tmp_path_factory.mktemp("pool") / "trace.json"
    path.write_text(json.dumps(made))
    return path


def test_the_policies_are_compared(trace: Path) -> None:
    told = pool("simulate", "--trace", str(trace), "--json")
    assert told.returncode == 0, told.stderr
    shown = checked(told.stdout)
    assert shown["jobs"] == 40 and shown["published"] == []
    by_name = {row["policy"]: row for row in shown["policies"]}
    assert set(by_name) >= {"static", "dlrover"}
    assert by_name["static"]["job_time_of_static"]["mean"] == 1
    for row in by_name.values():
        assert 0 < row["cpu_utilization"]["mean"] < 1
        assert 0 < row["completion"]["mean"] <= 1
    assert pool("simulate", "--trace", str(trace), "--json").stdout == told.stdout


def test_one_made_trace_is_shown_with_the_published_averages() -> None:
    told = pool("simulate", "--seeds", "1", "--policy", "dlrover")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0].startswith("simulated: 1 trace of ")
    assert "published, dlrover: CPU used 0.40" in told.stdout
    row, = (line for line in lines if line.startswith("dlrover "))
    assert " - " in row, "static was not run"


def test_what_makes_no_sense_is_refused(trace: Path, tmp_path: Path) -> None:
    wrong = pool("simulate", "--policy", "static,fair")
    assert wrong.returncode == 2 and "PL-E315" in wrong.stderr and '"fair"' in wrong.stderr
    gone = pool("simulate", "--trace", str(tmp_path / "gone"))
    assert gone.returncode == 2 and "PL-E316" in gone.stderr
    bad = tmp_path / "bad.json"
    bad.write_text(trace.read_text().replace('"restart_s"', '"restarts"', 1))
    refused = pool("simulate", "--trace", str(bad))
    assert refused.returncode == 2
    assert "jobs[0].restart_s is missing, or is no number" in refused.stderr
    assert pool("fly").returncode == 2 and pool().returncode == 2
