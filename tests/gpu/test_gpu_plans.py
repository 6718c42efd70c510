"""Plans that train on a GPU: measured, divided, killed, compiled, and without enough memory.

Times and rates are printed for people (`pytest -rP`), and no assertion depends on them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job import Job, binary

SCRIPT = Path(__file__).parent / "scripts/planned.py"
STEPS = 8
MakeJob = Callable[..., Job]


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is measured once, for all tests: starters stay warm for one environment."""
    return {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("numbers"))}


def train(job: Job, *args: object, ranks: int = 1, code: int = 0) -> list[dict[str, Any]]:
    """What each rank has written."""
    out = job.state / "out"
    words = [str(SCRIPT), "--out", str(out), "--steps", str(STEPS), *map(str, args)]
    job.start(["--standalone", "--nproc-per-node", str(ranks), "--max-restarts", "1"], words)
    assert job.wait() == code, job.stderr + job.stdout
    if code:
        return []
    rows = [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
    for row in rows:
        assert len(row["losses"]) == STEPS - row["first"]
        assert row["losses"][-1] < row["losses"][0]
    return rows


def worst(some: list[float], others: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(a - b) / abs(b) for a, b in zip(some, others, strict=True))


def told_error(job: Job) -> str:
    return " ".join((job.stdout + job.stderr).split())


def profile(tmp_path: Path, *words: str) -> dict[str, Any]:
    """The cluster that `paceline profile` finds. Its table is printed."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for more in ([], ["--json"]):
        done = subprocess.run(
            [str(binary()), "profile", *more, *words], check=False, cwd=tmp_path, timeout=120,
            env=environment, capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        print(done.stdout)
    return json.loads(done.stdout)


# ---- what is measured ----


def test_a_profile_names_the_device(device: str, tmp_path: Path) -> None:
    found = profile(tmp_path, *([] if device == "cuda" else ["--processes", "1"]))
    (kind,) = found["types"]
    assert min(kind["flops"], kind["bandwidth"], kind["memory"]) > 0
    if device == "cuda":
        import torch

        about = torch.cuda.get_device_properties(0)
        assert (kind["name"], kind["memory"]) == (about.name, about.total_memory)
    print_beside_catalogue(kind)


def print_beside_catalogue(kind: dict[str, Any]) -> None:
    """The measured type beside the one of its name in the catalogue."""
    name = "H200-141G" if "H200" in kind["name"] else "H100-80G"
    command = [str(binary()), "plan", "--model", "llama-8b", "--cluster", f"{name}:8"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(f"measured: {kind}\n{done.stdout}")
    assert name in done.stdout


def test_two_processes_of_one_device_measure_their_link(device: str, tmp_path: Path) -> None:
    found = profile(tmp_path, "--processes", "2")
    (kind,) = found["types"]
    assert found["groups"] == [{"type": kind["name"], "count": 2}]
    assert found["inner"]["bandwidth"] > 0
    if device == "cuda":
        import torch

        total = torch.cuda.get_device_properties(0).total_memory
        assert kind["memory"] == total // (2 if torch.cuda.device_count() == 1 else 1)


# ---- training ----


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_losses_are_those_of_torch_alone(
    make_job: MakeJob, device: str, numbers: dict[str, str], precision: str
) -> None:
    job = make_job(env=numbers)
    (row,) = train(job, "--plain", "--precision", precision)
    assert row["device"].startswith(device)
    difference = worst(row["losses"], row["plain"])
    assert difference < (1e-3 if precision == "fp32" else 2e-2), row
    print(f"{row['plan']}: {row['because']}\nlosses differ by {difference:.2g} of them at most; a "
          f"step takes {row['seconds']:.4g} s, {row['predicted']:.4g} s as predicted")  # fmt: skip
    shown = job.command("plan", "--show", "--job", str(job.run_dir))
    assert "predicted" in shown.stdout and "measured" in shown.stdout, shown.stderr
    print(shown.stdout)


def test_a_world_of_one_over_nccl(make_job: MakeJob, device: str, numbers: dict[str, str]) -> None:
    backend = "nccl" if device == "cuda" else "gloo"
    (row,) = train(make_job(env=numbers), "--plain", "--backend", backend)
    assert worst(row["losses"], row["plain"]) < 1e-3


def test_shards_in_a_world_of_one(make_job: MakeJob, device: str, numbers: dict[str, str]) -> None:
    backend = "nccl" if device == "cuda" else "gloo"
    args = ("--alone-in-shards", "--plain", "--backend", backend, "--precision", "bf16")
    (row,) = train(make_job(env=numbers), *args)
    assert row["plan"] == "data 1 (2 micro-batches, shard)"
    assert worst(row["losses"], row["plain"]) < 2e-2


@pytest.mark.parametrize("backend", ["", "gloo"], ids=["own world", "gloo"])
@pytest.mark.parametrize("shard", ["false", "true"], ids=["replicas", "shards"])
def test_two_ranks_share_a_device(
    make_job: MakeJob, device: str, numbers: dict[str, str], shard: str, backend: str
) -> None:
    """Without a backend of the script's, paceline forms a world that one GPU carries."""
    wishes = ("--wish", "data=2", "--wish", f"shard={shard}", "--wish", "pipeline=1")
    asked = ("--backend", backend) if backend else ()
    rows = train(make_job(env=numbers), "--plain", "--slower", *wishes, *asked, ranks=2)
    first, second = rows[0]["shares"]
    assert first > second, "the first device is planned to be faster"
    assert rows[0]["losses"] == rows[1]["losses"] and rows[0]["weights"] == rows[1]["weights"]
    assert worst(rows[0]["losses"], rows[0]["plain"]) < 1e-3


def test_a_pipeline_over_gloo(make_job: MakeJob, device: str, numbers: dict[str, str]) -> None:
    """gloo sends no tensors of a GPU, so such a plan is refused before anything is sent."""
    args = ("--slower", "--wish", "pipeline=2", "--backend", "gloo", "--plain")
    job = make_job(env=numbers)
    if device == "cpu":
        row = train(job, *args, ranks=2)[0]
        assert worst(row["losses"], row["plain"]) < 1e-3
        return
    train(job, *args, ranks=2, code=1)
    assert "pipeline 2: gloo does not send a GPU's tensors" in told_error(job)


def test_without_a_wish_gloo_gets_no_pipeline_on_a_gpu(
    make_job: MakeJob, gpu: str, numbers: dict[str, str]
) -> None:
    assert gpu == "cuda"
    row = train(make_job(env=numbers), "--backend", "gloo", ranks=2)[0]
    assert "pipeline" not in row["plan"]


# ---- what goes wrong ----


def test_a_killed_rank_goes_on_with_the_same_plan_and_bits(
    make_job: MakeJob, device: str, numbers: dict[str, str]
) -> None:
    whole, killed = make_job("whole", numbers), make_job("killed", numbers)
    args = ("--slower", "--wish", "pipeline=1", "--precision", "bf16")
    found = [
        train(job, *args, "--checkpoint", job.state / "ckpt", *more, ranks=2)
        for job, more in ((whole, ()), (killed, ("--kill-at", 5)))
    ]
    assert [event["details"]["how"] for event in killed.events("rank_failed")]
    for one, other in zip(*found, strict=True):
        # An image of a GPU counts when its bytes are hashed, so the last save may be lost.
        first = other["first"]
        assert one["first"] == 0 and first in (4, 5), "at most the step under way is lost"
        assert (one["plan"], one["shares"]) == (other["plan"], other["shares"])
        assert "the checkpoint has it" in other["because"]
        assert one["losses"][first:] == other["losses"]
        assert one["weights"] == other["weights"]
        assert one["device"].startswith(device)


def test_a_block_is_compiled_where_that_pays(
    make_job: MakeJob, device: str, numbers: dict[str, str]
) -> None:
    args = ("--compiled", "--plain", "--precision", "bf16")
    (row,) = train(make_job(env=numbers), *args)
    assert row["device"].startswith(device)
    assert worst(row["losses"], row["plain"]) < 2e-2
    told = re.search(r"(blocks are compiled: each takes|a compiled block takes|a block cannot be "
                     r"compiled: ).*", row["because"])
    assert told, row["because"]
    print(f"{told[0]}; a step takes {row['seconds']:.4g} s")


def test_a_full_device_is_named_and_its_plan_not_chosen_again(
    make_job: MakeJob, device: str, tmp_path: Path
) -> None:
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    plans: list[dict[str, Any]] = []
    for start in range(2):
        job = make_job(f"start{start}", own)
        job.start(["--standalone", "--max-restarts", "0"], [
            str(SCRIPT), "--out", str(job.state / "out"), "--fraction", str(600 << 20),
            "--precision", "bf16"])  # fmt: skip
        code, said = job.wait(), told_error(job)
        plans.append(json.loads(re.findall(r'\{"plan": .*?\}(?= |$)', said)[0]))
        if start == 0 or device == "cpu":
            assert code == 1 and "rank 0 ran out of memory in its first step" in said, said
            assert f"the plan predicts {plans[-1]['memory'][0] / (1 << 30):.3g} GiB" in said
    print(plans)
    assert plans[1]["memory"][0] <= 0.9 * plans[0]["memory"][0]
