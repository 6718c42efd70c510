"""Ranks of a planned job are killed under the real launcher: same plan, same bits."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEADLINE_S

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(sys.executable).parent / "paceline"

@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Path]:
    folder = Path("/tmp") / f"pl-plan-{os.getpid()}-{tmp_path.name[-12:]}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Folder:
    """Where jobs of one test run, one after the other, with one cache of measured numbers."""

    def __init__(self, path: Path, runtime: Path) -> None:
        self.path, self.runtime = path, runtime

    def train(self, checkpoint: str, ranks: int, *args: object, cache: str = "cache") -> str:
        """One job; everything that it wrote."""
        kept = ("PET_", "PACELINE_", "RANK", "WORLD_SIZE")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(kept)}
        # Nothing here is about silence, and an agent on a busy host may be silent for long.
        environment |= {"PACELINE_TIMERS_LOST_AFTER": "15s",
                        "PACELINE_RUNTIME_DIR": str(self.runtime),
                        "XDG_CACHE_HOME": str(self.path / cache)}  # fmt: skip
        script = [str(ROOT / "examples/parallel.py"), "--checkpoint", checkpoint, "--steps", "8"]
        command = [str(BINARY), "run", "--standalone", "--nproc-per-node", str(ranks)]
        done = subprocess.run(
            [*command, *script, *map(str, args)], check=False, cwd=self.path, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout


def weights(output: str) -> str:
    (found,) = re.findall(r"weights sha256 ([0-9a-f]{64})", output)
    return found


def plans(output: str) -> list[tuple[str, str]]:
    """What each world printed: its plan, and where that comes from."""
    return re.findall(r"\| plan (.*?): (it is chosen|the checkpoint has it)", output)


def check_killed(
    folder: Folder, pipeline: int, rank: int, split: int = 1, chunks: int = 1,
    more: tuple[str, ...] = (), words: str = "", tensor: int = 1, replicas: int = 1,
) -> None:  # fmt: skip
    options = (*more, "--pipeline", pipeline, "--split", split, "--virtual-stages", chunks)
    ranks = max(2, pipeline * split * tensor * replicas)
    killed = folder.train("killed", ranks, *options, "--kill-at", 4, "--kill-rank", rank)
    (first, chosen), (second, kept) = plans(killed)
    assert (chosen, kept) == ("it is chosen", "the checkpoint has it")
    data = ranks // pipeline // split // tensor
    assert first == second and f"data {data}" in first and words in first
    assert ("tensor" in first) == (split * tensor > 1)
    assert (f"{chunks} virtual stages" in first) == (chunks > 1)
    resumed = re.findall(r"resumed at step (\d+)", killed)
    assert resumed == ["4"], "nothing is lost, and nothing repeated"
    assert weights(killed) == weights(folder.train("whole", ranks, *options))


def test_a_killed_stage_goes_on_with_the_same_plan_and_bits(tmp_path: Path, runtime: Path) -> None:
    check_killed(Folder(tmp_path, runtime), pipeline=2, rank=1)


@pytest.mark.long
def test_killed_ranks_that_share_layers_go_on_with_the_same_bits(
    tmp_path: Path, runtime: Path
) -> None:
    check_killed(Folder(tmp_path, runtime), pipeline=1, rank=1, split=2)


@pytest.mark.long
@pytest.mark.parametrize(("pipeline", "rank"), [(2, 0), (1, 0), (1, 1)])
def test_any_killed_rank_goes_on_with_the_same_plan_and_bits(
    pipeline: int, rank: int, tmp_path: Path, runtime: Path
) -> None:
    check_killed(Folder(tmp_path, runtime), pipeline, rank)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_interleaved_stage_goes_on_with_the_same_bits(
    rank: int, tmp_path: Path, runtime: Path
) -> None:
    check_killed(Folder(tmp_path, runtime), pipeline=2, rank=rank, chunks=3)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_stage_that_keeps_products_goes_on_with_the_same_bits(
    rank: int, tmp_path: Path, runtime: Path
) -> None:
    more = ("--recompute", "selective")
    check_killed(Folder(tmp_path, runtime), 2, rank, more=more, words="selective recompute")


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_stage_of_two_backward_passes_goes_on_with_the_same_bits(
    rank: int, tmp_path: Path, runtime: Path
) -> None:
    more = ("--schedule", "zero-bubble")
    check_killed(Folder(tmp_path, runtime), 2, rank, more=more, words="zero-bubble")


@pytest.mark.long
@pytest.mark.parametrize(("pipeline", "rank"), [(1, 1), (2, 0), (2, 3)])
def test_killed_ranks_that_divide_sequences_go_on_with_the_same_bits(
    pipeline: int, rank: int, tmp_path: Path, runtime: Path
) -> None:
    more = ("--llama", "--tensor", "2", "--sequence")
    check_killed(Folder(tmp_path, runtime), pipeline, rank, more=more, words="sequence", tensor=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("pipeline", "rank", "more"),
    [(2, 0, {}), (2, 1, {}), (3, 0, {}), (3, 1, {}), (3, 2, {}), (2, 0, {"chunks": 3}),
     (2, 1, {"chunks": 3}), (2, 0, {"replicas": 2}), (2, 3, {"replicas": 2})],
    ids=str,
)  # fmt: skip
def test_a_killed_stage_with_a_copy_of_a_weight_goes_on_with_the_same_bits(
    pipeline: int, rank: int, more: dict[str, int], tmp_path: Path, runtime: Path
) -> None:
    folder = Folder(tmp_path, runtime)
    options = ("--gpt2", "--shard") if "replicas" in more else ("--gpt2",)
    check_killed(folder, pipeline, rank, more=options, **more)
    assert_no_copy_differs(tmp_path / "killed")
    assert_no_copy_differs(tmp_path / "whole")


def assert_no_copy_differs(checkpoints: Path) -> None:
    """That ranks with the same tensors have saved the same bits."""
    manifests = [json.loads(one.read_text()) for one in checkpoints.glob("step-*/MANIFEST.json")]
    assert manifests
    assert not any(one.get("differing") for one in manifests)


@pytest.mark.long
def test_a_plan_goes_on_where_nothing_is_cached_and_another_world_plans_anew(
    tmp_path: Path, runtime: Path
) -> None:
    folder = Folder(tmp_path, runtime)
    first = folder.train("kept", 2, "--pipeline", 1)
    again = folder.train("kept", 2, "--pipeline", 1, "--steps", 10, cache="another")
    assert plans(again) == [(plans(first)[0][0], "the checkpoint has it")]
    assert not (tmp_path / "another/paceline/probe").exists(), "nothing was measured"
    smaller = folder.train("kept", 1, "--pipeline", 1, "--steps", 12)
    assert "plan data 1, shares [24]: it is chosen" in smaller
    assert "resumed at step 10" in smaller
