"""`paceline run --plan`: a script has to train by a plan, or is stopped at a line of it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command import DEADLINE_S, ROOT, find_binary
from paceline.parallel import cluster, planner
from paceline.parallel.describe import text_of
from torch import nn

from paceline import parallel

PLAIN = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(1, 2)).sum()
loss.backward()
optimizer.step()
print("stepped", flush=True)
"""
LINE_OF_BACKWARD = 6

PLANNED = """
import torch
from torch import nn
from paceline import parallel
parallel.parallelize(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), optimizer=torch.optim.SGD,
                     loss=nn.functional.mse_loss, global_batch=4,
                     example=(torch.zeros(4, 2), torch.zeros(4, 1)))
"""


def plan_of(ranks: int) -> dict[str, object]:
    """A plan of the model above with this many replicas."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    example = (torch.zeros(4, 2), torch.zeros(4, 1))
    summary = parallel.describe(model, example, nn.functional.mse_loss, optimizer=torch.optim.SGD)
    wishes = {"global_batch": 4, "data": [ranks], "shard": [False]}
    found: dict[str, object] = json.loads(
        planner.choose(text_of(summary), cluster.without_numbers([["cpu", ranks]]), wishes))
    return found


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Path]:
    folder = Path("/tmp") / f"pl-must-{os.getpid()}-{tmp_path.name[-12:]}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(path: Path, runtime: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = ("PET_", "PACELINE_", "RANK", "WORLD_SIZE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(kept)}
    environment |= {"PACELINE_RUNTIME_DIR": str(runtime), "XDG_CACHE_HOME": str(path / "cache"),
                    "PACELINE_TIMERS_LOST_AFTER": "15s"}  # an agent on a busy host is silent long
    return subprocess.run(
        [find_binary(), "run", "--standalone", "--run-dir", "run", *words], check=False, cwd=path,
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=DEADLINE_S,
    )  # fmt: skip


def error_of(path: Path) -> dict[str, object]:
    """The record of the first rank that failed."""
    records = sorted(path.glob("run/errors/*/g*-rank0.json"))
    found: dict[str, object] = json.loads(records[0].read_text())
    return found


def test_a_script_without_a_plan_is_stopped_at_its_first_backward(
    tmp_path: Path, runtime: Path
) -> None:
    script = tmp_path / "plain.py"
    script.write_text(PLAIN)
    done = run(tmp_path, runtime, "--plan", "auto", "--max-restarts", "0", str(script))
    assert done.returncode != 0
    assert "stepped" not in done.stdout, "before a step is done"
    assert "the job must train by a plan, and the script has none" in done.stdout
    assert f"plain.py, line {LINE_OF_BACKWARD}" in done.stdout
    found = error_of(tmp_path)
    assert (found["file"], found["line"]) == (str(script), LINE_OF_BACKWARD)
    assert found["step"] == -1


def test_without_the_flag_the_same_script_trains(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    done = run(tmp_path, runtime, "plain.py")
    assert done.returncode == 0 and "stepped" in done.stdout


@pytest.mark.parametrize("end", ["", "import sys\nsys.exit()\n"])
def test_a_script_that_ends_without_a_plan_has_failed(
    end: str, tmp_path: Path, runtime: Path
) -> None:
    (tmp_path / "nothing.py").write_text(f"print('nothing to do', flush=True)\n{end}")
    done = run(tmp_path, runtime, "--plan", "auto", "--max-restarts", "0", "nothing.py")
    assert done.returncode != 0
    assert "nothing to do" in done.stdout
    assert "it has ended, and never called parallelize" in done.stdout


@pytest.mark.parametrize("case", ["no plan", "another world"])
def test_a_failure_that_no_restart_mends_ends_the_job(
    case: str, tmp_path: Path, runtime: Path
) -> None:
    if case == "no plan":
        (tmp_path / "train.py").write_text(PLAIN)
        why, plan = "the job must train by a plan", "auto"
    else:
        (tmp_path / "train.py").write_text(PLANNED)
        (tmp_path / "two.json").write_text(json.dumps(plan_of(2)))
        why, plan = "it is for 2 ranks, and the world has 1", "two.json"
    done = run(tmp_path, runtime, "--plan", plan, "train.py")
    assert done.returncode == 1, done.stdout
    assert "no restart can mend this" in done.stdout, done.stdout
    assert why in done.stdout
    assert len(list(tmp_path.glob("run/errors/*/g*-rank0.json"))) == 1, "there was one world"


def test_a_script_that_fails_by_itself_keeps_its_own_end(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "fails.py").write_text("import sys\nsys.exit(7)\n")
    done = run(tmp_path, runtime, "--plan", "auto", "--max-restarts", "0", "fails.py")
    assert done.returncode != 0
    assert "must train by a plan" not in done.stdout


def test_a_file_that_is_no_plan_is_refused_before_anything_starts(
    tmp_path: Path, runtime: Path
) -> None:
    (tmp_path / "plan.json").write_text("{}")
    for name, why in (("plan.json", ""), ("missing.json", "there is no such file")):
        done = run(tmp_path, runtime, "--plan", name, "train.py")
        assert done.returncode != 0 and "PL-E120" in done.stdout, done.stdout
        assert why in done.stdout, done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_plan_of_a_file_is_carried_out(tmp_path: Path, runtime: Path) -> None:
    script = str(ROOT / "examples/parallel.py")
    cluster = {"name": "cpu", "flops": 1e10, "bandwidth": 1e10, "launch": 1e-5,
               "memory": 1 << 33, "source": "test"}  # fmt: skip
    link = {"seconds": 1e-5, "bandwidth": 1e9}
    (tmp_path / "cluster.json").write_text(json.dumps({
        "schema": "paceline.cluster/1", "types": [cluster], "groups": [{"type": "cpu", "count": 2}],
        "node": 1, "inner": link, "outer": link}))  # fmt: skip
    made = subprocess.run(
        [find_binary(), "plan", "--json", "--cluster", "cluster.json", "--only", "pp=2", script],
        check=True, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(made.stdout)
    done = run(tmp_path, runtime, "--plan", "plan.json", "--nproc-per-node", "2", script,
               "--steps", "3")  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "plan data 1 × pipeline 2" in done.stdout
    assert "plan.json gives it" in done.stdout
