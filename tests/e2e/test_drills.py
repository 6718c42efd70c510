"""`paceline drill`: faults caused for real, what was expected of them, and what was seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from job import GRACE_S, JsonDict, binary, eventually, processes_of

pytest.importorskip("torch", reason="the drills' job trains with torch")
DRILL_S = 600.0  # generous, as for a whole table on a busy machine
SHORT = ["sigkill", "exception", "master_kill"]
NOT_DRILLED = {"xid_79"}  # without --kernel-log, which writes where others read


def drill(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run([str(binary()), "drill", *words], cwd=directory, env=usual,
                          capture_output=True, text=True, timeout=DRILL_S, check=False)


def kinds(directory: Path) -> list[str]:
    done = drill(directory, "--json")
    return [kind["kind"] for kind in json.loads(done.stdout)["kinds"]]


def rows_of(done: subprocess.CompletedProcess[str]) -> list[JsonDict]:
    told = json.loads(done.stdout)
    assert told["schema"] == "paceline.drill/1"
    return told["rows"]


def is_gone(job_id: str, run_dir: Path) -> bool:
    return not processes_of(job_id, run_dir)


def nothing_is_left(rows: Sequence[JsonDict]) -> None:
    for row in rows:
        run_dir = Path(row["run_dir"])
        if (run_dir / "job.json").exists():
            job_id = json.loads((run_dir / "job.json").read_text())["id"]
            eventually(partial(is_gone, job_id, run_dir), "nothing of the job lives", GRACE_S)


def are_as_expected(directory: Path, *words: str) -> None:
    done = drill(directory, "--json", "--keep", *words)
    rows = rows_of(done)
    try:
        assert [row["state"] for row in rows] == ["as_expected"] * len(rows), rows
        assert done.returncode == 0, done.stderr
        assert all(row["seen"]["class"] == row["expected"]["class"] for row in rows)
        nothing_is_left(rows)
    finally:
        shutil.rmtree(Path(rows[0]["run_dir"]).parents[1], ignore_errors=True)


@pytest.mark.parametrize("kind", SHORT)
def test_drills_end_as_expected(tmp_path: Path, kind: str) -> None:
    are_as_expected(tmp_path, kind)


@pytest.mark.skipif(not os.environ.get("PACELINE_DRILLS"),
                    reason="ALL DRILLS NOT RUN: `make test-diagnosis` does it, in four minutes")
def test_every_kind_ends_as_expected(tmp_path: Path) -> None:
    """Each in a job of its own, one after the other: this is what a user runs."""
    done = drill(tmp_path, "--json", "--all")
    rows = rows_of(done)
    assert [row["kind"] for row in rows] == kinds(tmp_path)
    assert {row["kind"] for row in rows if row["state"] == "skipped"} == NOT_DRILLED
    wrong = [row for row in rows if row["state"] == "wrong"]
    assert wrong == [], wrong
    assert done.returncode == 0


TRAINS = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
assert sys.argv[1:] == ["--lr", "3"], sys.argv
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
"""


@pytest.mark.parametrize("kind", ["exit", "agent_kill"])
def test_a_script_of_the_user(tmp_path: Path, kind: str) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    are_as_expected(tmp_path, kind, "train.py", "--lr", "3")


SWALLOWS = TRAINS.replace("    optimizer.step()\n", """
    try:
        optimizer.step()
    except ValueError:
        pass
""")


def test_a_table_can_be_wrong(tmp_path: Path) -> None:
    """A script that catches the error fails in no way, so the drill is not as expected."""
    (tmp_path / "train.py").write_text(SWALLOWS)
    done = drill(tmp_path, "--json", "exception", "train.py", "--lr", "3")
    (row,) = rows_of(done)
    assert (row["state"], row["why"]) == ("wrong", "nothing was found within 20s"), row
    assert done.returncode == 5
    nothing_is_left([row])
    shutil.rmtree(Path(row["run_dir"]).parents[1], ignore_errors=True)


def test_a_kind_that_needs_consent_is_skipped_and_never_passed(tmp_path: Path) -> None:
    done = drill(tmp_path, "xid_79")
    assert done.returncode == 5, done.stdout
    assert "skipped: " in done.stdout
    assert "0 as expected, 0 wrong, 1 skipped" in done.stdout


@pytest.mark.parametrize(("words", "code", "text"), [
    (["sigkil"], "PL-E165", "did you mean paceline drill sigkill?"),
    (["wrong_shape", "train.py"], "PL-E166", "paceline drill wrong_shape rehearses it"),
    (["exit", "nothing.py"], "PL-E008", "nothing.py"),
    (["exit", "."], "PL-E008", "it is a directory"),
    (["exit", "--nosuch"], "PL-E001", "paceline drill has no flag --nosuch"),
    (["--all", "exit"], "PL-E010", "paceline drill --all"),
])
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: list[str], code: str,
                                        text: str) -> None:
    done = drill(tmp_path, *words)
    assert done.returncode == 2
    assert code in done.stderr and text in done.stderr, done.stderr
