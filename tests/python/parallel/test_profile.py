"""`paceline profile`: measures this machine, keeps the numbers, and prints them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from command import DEADLINE_S, ROOT, find_binary
from jsonschema import Draft202012Validator
from paceline.parallel import probe, profile, profile_run
from paceline.parallel.store import Talk

CLUSTER = json.loads((ROOT / "docs/schemas/cluster.json").read_text())


def test_products_and_memory_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(profile_run, "_SIZES", (64, 128))
    monkeypatch.setattr(probe, "_WINDOW_SECONDS", 0.01)
    found = profile_run.measure_products(torch.device("cpu"), Talk(0, 1, None))
    Draft202012Validator(CLUSTER).validate(found["cluster"])
    (kind,) = found["cluster"]["types"]
    best = max(one["flops"] for one in found["products"] if one["precision"] == "fp32")
    assert kind["flops"] == best > 1e6
    assert kind["bandwidth"] > 1e6 and kind["launch"] > 0 and kind["memory"] > 1 << 20
    text = profile.table(found)
    assert "products of matrices" in text and "fp32 128³" in text
    assert str(tmp_path / "paceline/probe") in text
    assert "link" not in text, "there is one process"


def profiled(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "PACELINE_"))}
    return subprocess.run(
        [find_binary(), "profile", *words], check=False, cwd=path, capture_output=True, text=True,
        env=environment | {"XDG_CACHE_HOME": str(path / "cache")}, timeout=DEADLINE_S,
    )  # fmt: skip


@pytest.mark.long
def test_a_script_is_measured_by_its_own_block_and_kept_for_its_training(tmp_path: Path) -> None:
    script = str(ROOT / "examples/parallel.py")
    done = profiled(tmp_path, "--json", script, "--steps", "1000000")
    assert done.returncode == 0, done.stderr
    cluster = json.loads(done.stdout)
    Draft202012Validator(CLUSTER).validate(cluster)
    assert sum(one["count"] for one in cluster["groups"]) == 2
    assert cluster["types"][0]["source"] == "measured"
    kept = sorted((tmp_path / "cache/paceline/probe").iterdir())
    assert len(kept) == 2, "the block, and the link"
    (tmp_path / "cluster.json").write_text(done.stdout)
    planned = subprocess.run(
        [find_binary(), "plan", "--json", "--cluster", "cluster.json", script], check=True,
        cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert json.loads(planned.stdout)["predicted"]["step"] > 0


@pytest.mark.long
def test_a_machine_is_measured_without_a_script(tmp_path: Path) -> None:
    done = profiled(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "link" in done.stdout and "2 at the same time" in done.stdout


@pytest.mark.long
def test_a_script_without_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('nothing')\n")
    done = profiled(tmp_path, "plain.py")
    assert done.returncode == 2
    assert "PL-E121" in done.stderr
    assert "it never called paceline.parallel.parallelize" in done.stderr


@pytest.mark.long
def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text("import os\n{}['lr']\n")
    done = profiled(tmp_path, "failing.py")
    assert done.returncode == 2
    assert "where  failing.py, line 2" in done.stderr, done.stderr
    assert "why    KeyError: 'lr'" in done.stderr


def test_a_script_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    done = profiled(tmp_path, "nofile.py")
    assert done.returncode == 2
    assert "PL-E120" in done.stderr and "there is no such file" in done.stderr


def test_an_impossible_number_of_processes_is_refused() -> None:
    with pytest.raises(profile.PlanError, match="0 processes cannot measure"):
        profile._count(0)
