"""Directories of checkpoints with damaged, newer, unfinished and hostile folders in them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from paceline.torch import Checkpointer
from test_ckpt_commands import ckpt, told

pytestmark = pytest.mark.usefixtures("own_keeper")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A directory with steps 0, 1 and 2, of which nothing is in memory: it is a copy."""
    save_three(tmp_path / "first")
    return Path(shutil.copytree(tmp_path / "first", tmp_path / "c"))


def save_three(place: Path) -> None:
    state = {"weight": torch.arange(16.0)}
    with Checkpointer(place, every=1) as one:
        one.restore(state)
        for step in range(3):
            one.save(step, state).wait("durable")


def newest_of(place: Path) -> Path:
    return place / (place / "LATEST").read_text().strip()


def states(place: Path) -> dict[str, str]:
    return {one["name"]: one["state"] for one in told("verify", place)["checkpoints"]}


def tear(folder: Path) -> None:
    """Its manifest ends in the middle."""
    manifest = folder / "MANIFEST.json"
    manifest.write_bytes(manifest.read_bytes()[:200])


def restore_in_a_new_process(place: Path) -> subprocess.CompletedProcess[str]:
    """What a new run of a script says."""
    script = (
        "import sys, torch; from paceline.torch import Checkpointer\n"
        "one = Checkpointer(sys.argv[1]); state = {'weight': torch.zeros(16)}\n"
        "print(one.restore(state), one.restored); one.close()\n"
    )
    command = [sys.executable, "-c", script, str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_verify_names_a_newest_folder_that_is_damaged(three: Path) -> None:
    newest = newest_of(three)
    tear(newest)
    done = ckpt("verify", three)
    assert done.returncode == 5, done.stdout
    first, *rest = done.stdout.splitlines()
    assert first == f"{newest.name}: damaged" and "not a JSON object" in rest[0], done.stdout
    assert states(three) == {
        newest.name: "damaged", "step-1-g1": "whole", "step-0-g1": "whole"
    }  # fmt: skip
    assert ckpt("verify", newest).returncode == 5, "named by itself, too"
    for folder in three.glob("step-*"):
        tear(folder)
    done = ckpt("verify", three)
    assert done.returncode == 5 and len(done.stdout.splitlines()) == 6, "none is whole"


def test_verify_names_a_newest_folder_without_its_manifest(three: Path) -> None:
    (newest_of(three) / "MANIFEST.json").unlink()
    done = ckpt("verify", three)
    assert done.returncode == 5 and "LATEST names it, and it has no manifest" in done.stdout


def test_a_folder_that_a_living_job_fills_is_being_written(three: Path) -> None:
    on_its_way = three / "step-7-g1"
    on_its_way.mkdir()
    (on_its_way / "rank-00000.json").write_text("{")
    assert states(three)["step-7-g1"] == "unfinished", "its job has ended"
    assert ckpt("verify", three).returncode == 0, "a save that was cut off is no damage"
    with Checkpointer(three) as one:
        one.restore({"weight": torch.zeros(16)})
        assert states(three)["step-7-g1"] == "being written"
        assert "step-7-g1: being written" in ckpt("verify", three).stdout


def test_copy_and_restore_say_what_they_passed_over(three: Path, tmp_path: Path) -> None:
    newest = newest_of(three)
    tear(newest)
    said = f"passed over {newest.name}: the manifest is not a JSON object"
    answer = told("copy", three, tmp_path / "copy")
    assert answer["to"].endswith("/step-1-g1")
    assert [one["name"] for one in answer["passed_over"]] == [newest.name]
    for words in (["copy", three, tmp_path / "copy"], ["show", three],
                  ["export", three, tmp_path / "out", "--to", "hf", "--entry", "weight"],
                  ["diff", three, three]):
        assert said in ckpt(*words).stderr, words
    done = restore_in_a_new_process(three)
    assert done.stdout.startswith("2 goes on after step 1") and said in done.stdout, done
    assert f"paceline: {said}" in done.stderr
