"""What somebody does between two runs: the next run finds what the directory has, not a memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import find_binary
from keepers import await_release, end_keepers

pytestmark = pytest.mark.usefixtures("own_keeper")

# Saves that many steps, and says where it began and what it had then.
SCRIPT = """
import sys, numpy, paceline.numpy as pl
from paceline._storage import directory_id
directory_id._Directory.patience = 60.0  # a busy disk may answer late
x = {"x": numpy.zeros(1)}
with pl.Checkpointer(sys.argv[1], every=1, keep=9) as ckpt:
    start = ckpt.restore(x)
    print(start, int(x["x"][0]), ckpt.restored)
    for step in range(start, start + int(sys.argv[2])):
        x["x"] += 1
        ckpt.save(step, x).wait("durable")
"""


def run(directory: Path, steps: int) -> tuple[int, int, str]:
    """The first step of that run, the state it began with, and where it came from."""
    words = [sys.executable, "-c", SCRIPT, str(directory), str(steps)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    await_release(directory)
    start, value, whence = done.stdout.strip().split(" ", 2)
    return int(start), int(value), whence


def steps_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("step-*"))


def remove_all(directory: Path) -> None:
    for entry in directory.iterdir():
        if not entry.name.startswith("."):  # as `rm -rf DIR/*`
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def remove_newest(directory: Path) -> None:
    words = [find_binary(), "ckpt", "rm", str(directory), "--step", "3"]
    subprocess.run(words, check=True, capture_output=True, text=True)


def test_what_nobody_touched_goes_on_from_memory(tmp_path: Path) -> None:
    run(tmp_path / "c", 3)
    start, value, whence = run(tmp_path / "c", 0)
    assert (start, value) == (3, 3)
    assert whence.endswith("from memory")


def test_checkpoints_that_were_removed_are_gone_though_the_marker_stays(tmp_path: Path) -> None:
    run(tmp_path / "c", 3)
    remove_all(tmp_path / "c")
    assert (tmp_path / "c/.paceline-id").exists()
    assert run(tmp_path / "c", 2)[:2] == (0, 0)
    assert run(tmp_path / "c", 0)[:2] == (2, 2), "the run after it goes on from that one"


def test_the_newest_one_that_was_removed_is_gone(tmp_path: Path) -> None:
    run(tmp_path / "c", 4)
    remove_newest(tmp_path / "c")
    left = steps_of(tmp_path / "c")[-1].name
    start, value, whence = run(tmp_path / "c", 1)
    assert start == value < 4
    assert left in whence
    assert run(tmp_path / "c", 0)[:2] == (start + 1, value + 1)


def test_a_backup_that_was_put_back_is_what_counts(tmp_path: Path) -> None:
    run(tmp_path / "c", 2)
    shutil.copytree(tmp_path / "c", tmp_path / "backup", symlinks=True)
    run(tmp_path / "c", 3)
    remove_all(tmp_path / "c")
    for entry in (tmp_path / "backup").iterdir():
        if not entry.name.startswith("."):
            copy: Callable[[Path, Path], object] = (
                shutil.copytree if entry.is_dir() else shutil.copy2
            )
            copy(entry, tmp_path / "c" / entry.name)
    assert run(tmp_path / "c", 1)[:2] == (2, 2)
    newest = max(int(path.name.split("-")[1]) for path in steps_of(tmp_path / "c"))
    assert newest == 2, "the step of the last run is in storage"


def test_what_a_run_by_another_path_has_saved_since_is_newer(tmp_path: Path) -> None:
    (tmp_path / "same").symlink_to(tmp_path / "c")
    run(tmp_path / "c", 2)
    assert run(tmp_path / "same", 3)[:2] == (2, 2)
    assert run(tmp_path / "c", 1)[:2] == (5, 5)
    assert run(tmp_path / "same", 0)[:2] == (6, 6)


def test_a_directory_that_was_moved_away_and_back_has_what_was_saved_meanwhile(
    tmp_path: Path,
) -> None:
    run(tmp_path / "c", 2)
    (tmp_path / "c").rename(tmp_path / "d")
    assert run(tmp_path / "d", 3)[:2] == (2, 2)
    (tmp_path / "d").rename(tmp_path / "c")
    assert run(tmp_path / "c", 0)[:2] == (5, 5)


def test_memory_that_was_removed_is_not_looked_for(tmp_path: Path) -> None:
    """As `rm -rf /dev/shm/paceline-*`, while the keeper lives."""
    run(tmp_path / "c", 3)
    for job in keepers_memory():
        shutil.rmtree(job)
    assert run(tmp_path / "c", 0)[:2] == (3, 3)


def keepers_memory() -> list[Path]:
    home = Path(f"/dev/shm/paceline-{os.getuid()}")
    locks = Path(os.environ["PACELINE_RUNTIME_DIR"]).glob("*.lock")
    jobs = [home / lock.name.removesuffix(".sock.lock") for lock in locks]
    assert all(job.exists() for job in jobs)
    return jobs


KILLS = """
import os, pathlib, sys, numpy, paceline.numpy as pl
sys.path.insert(0, sys.argv[2])
from keepers import end_keepers
x = {"x": numpy.zeros(1)}
ckpt = pl.Checkpointer(sys.argv[1], every=1)
start = ckpt.restore(x)
for step in range(start, start + 4):
    x["x"] += 1
    ticket = ckpt.save(step, x)
    if step == start + 1:
        ticket.wait("durable")
        end_keepers(pathlib.Path(os.environ["PACELINE_RUNTIME_DIR"]), keeps_memory=True)
ckpt.close()
print(start, int(x["x"][0]), ckpt.restored)
"""


def test_a_run_goes_on_when_its_keeper_dies(tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLS, str(tmp_path / "c"), str(Path(__file__).parents[1])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert run(tmp_path / "c", 0)[:2] == (4, 4)
    end_keepers(Path(os.environ["PACELINE_RUNTIME_DIR"]))
    assert run(tmp_path / "c", 0)[:2] == (4, 4), "it is in storage"
