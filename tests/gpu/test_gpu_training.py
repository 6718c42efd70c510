"""Scripts that train on a GPU and are killed: they end with the bits of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job import Job

SCRIPTS = Path(__file__).parent / "scripts"
STEPS = 240
KILLS_BEYOND = (40, 100, 170)
MakeJob = Callable[..., Job]


def start(job: Job, device: str, *args: str, ranks: int = 1) -> Job:
    """The checkpoints and what the script says are in folders of the job."""
    script = [str(SCRIPTS / "training.py"), "--checkpoint", str(job.state / "ckpt"),
              "--out", str(job.state / "out"), "--steps", str(STEPS), "--device", device, *args]
    return job.start(["--standalone", "--nproc-per-node", str(ranks)], script)


def starts(job: Job, rank: int = 0) -> list[dict[str, Any]]:
    path = job.state / "out" / f"starts-{rank}"
    return [json.loads(line) for line in path.read_text().splitlines()]


def digest(job: Job, rank: int = 0) -> dict[str, str]:
    return json.loads((job.state / "out" / f"digest-{rank}").read_text())


def kill_three_times(job: Job, ranks: int = 1) -> None:
    for number, beyond in enumerate(KILLS_BEYOND):
        there = job.until_stepping(ranks, beyond=beyond)
        os.kill(there[number % ranks]["pid"], signal.SIGKILL)


def differences(some: dict[str, str], others: dict[str, str]) -> list[str]:
    assert some.keys() == others.keys()
    return [name for name in some if some[name] != others[name]]


def check_killed_as_undisturbed(
    make_job: MakeJob, device: str, *args: str, ranks: int = 1
) -> Job:
    undisturbed, killed = make_job("undisturbed"), make_job("killed")
    start(undisturbed, device, *args, ranks=ranks)
    assert undisturbed.wait() == 0, undisturbed.stderr + undisturbed.stdout
    start(killed, device, *args, ranks=ranks)
    kill_three_times(killed, ranks)
    assert killed.wait() == 0, killed.stderr + killed.stdout
    for rank in range(ranks):
        assert differences(digest(undisturbed, rank), digest(killed, rank)) == []
        begun = starts(killed, rank)
        assert len(begun) == 1 + len(KILLS_BEYOND)
        assert all("from memory" in one["restored"] for one in begun[1:]), begun
    for failed, one in zip(killed.events("rank_failed"), starts(killed)[1:], strict=True):
        assert one["first"] >= failed["step"], "at most the step under way is lost"
    assert "pinned memory" not in killed.stderr + undisturbed.stderr  # the way around
    return killed


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--overlap"],
        ["--amp", "float16"],
        ["--amp", "float16", "--overlap"],
        ["--amp", "bfloat16", "--overlap"],
    ],
    ids=" ".join,
)
def test_a_script_that_is_killed_three_times_ends_with_the_same_bits(
    make_job: MakeJob, device: str, args: list[str]
) -> None:
    killed = check_killed_as_undisturbed(make_job, device, *args)
    check_forks(killed)


def check_forks(job: Job) -> None:
    """Ranks are forks of a starter that never made a CUDA context: with one they could not."""
    begun = starts(job)
    assert all(one["is_fork"] for one in begun[1:]), begun
    assert not any(one["is_bad_fork"] or one["is_cuda_there"] for one in begun), begun
    (starter,) = {one["parent"] for one in begun if one["is_fork"]}
    opened = [os.readlink(fd) for fd in Path(f"/proc/{starter}/fd").iterdir()]
    assert not [path for path in opened if "nvidia" in path], opened


def test_two_ranks_on_one_gpu_over_gloo(make_job: MakeJob, device: str) -> None:
    check_killed_as_undisturbed(
        make_job, device, "--backend", "gloo", "--wrap", "ddp", ranks=2)


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
@pytest.mark.parametrize("overlap", [[], ["--overlap"]], ids=["", "overlap"])
def test_nccl_with_one_rank(
    make_job: MakeJob, device: str, wrap: str, overlap: list[str]
) -> None:
    backend = "nccl" if device == "cuda" else "gloo"
    check_killed_as_undisturbed(
        make_job, device, "--backend", backend, "--wrap", wrap, *overlap)


@pytest.mark.parametrize("script", ["hf_trainer.py", "lightning_fit.py"])
def test_a_framework_goes_on_with_the_same_bits(
    make_job: MakeJob, device: str, script: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    ended: dict[str, dict[str, Any]] = {}
    weights: dict[str, dict[str, Any]] = {}
    for name, die_at in (("undisturbed", -1), ("killed", 21)):
        job, out = make_job(name), tmp_path / f"{name}.pt"
        job.start(["--standalone"], [str(SCRIPTS / script), str(tmp_path / f"ckpt-{name}"),
                                     str(out), str(die_at), device])
        assert job.wait() == 0, job.stderr + job.stdout
        assert len(job.events("rank_failed")) == (die_at > 0)
        ended[name] = json.loads(Path(f"{out}.json").read_text())
        weights[name] = torch.load(out, weights_only=True)
    assert ended["killed"]["step"] == ended["undisturbed"]["step"] == 48
    assert "step 20, from memory" in ended["killed"]["restored"], ended
    for key, value in weights["undisturbed"].items():
        assert torch.equal(value, weights["killed"][key]), key
