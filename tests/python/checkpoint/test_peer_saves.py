"""A script whose rank 0 alone saves is told so while it runs."""

import struct
import subprocess
from pathlib import Path

import pytest
from command import find_binary
from paceline._checkpoint.peer_saves import PeerSaves, whole_images
from paceline._native import SavedStep

pytestmark = pytest.mark.usefixtures("own_keeper")

CONTROL = 4096


def write_arena(path: Path, slots: list[tuple[int, int]]) -> None:
    """Slots by the low byte of their state and their generation."""
    text = bytearray(4096 + CONTROL * len(slots))
    struct.pack_into("<8sIIQQ", text, 0, b"PARENA1\0", 3, len(slots), 1 << 21, CONTROL)
    for i, (state, generation) in enumerate(slots):
        struct.pack_into("<QQ", text, 4096 + i * CONTROL, 0x500 | state, generation)
    path.write_bytes(text)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def told(peers: PeerSaves, arena: Path, steps: range, generation: int = 4) -> list[str]:
    saved = [SavedStep(generation, 0, step) for step in steps]
    return [text for one in saved if (text := peers.warning(one, str(arena / "rank-0.arena")))]


def test_whole_images_are_those_that_a_reader_may_take(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)])
    assert whole_images(str(tmp_path / "rank-1.arena")) == [7, 6]


def test_a_rank_that_saves_nothing_is_named_once(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(2, 3), (1, 4)])  # of the world before
    write_arena(tmp_path / "rank-2.arena", [(0, 0)])
    write_arena(tmp_path / "rank-3.arena", [(2, 4)])
    peers = PeerSaves(0, 4, now=Clock())
    (sentence,) = told(peers, tmp_path, range(10, 40))
    assert sentence == (
        "step 10 is not whole: ranks 1, 2 have not saved it; every rank has to call save()"
    )


def test_time_counts_where_steps_are_slow(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(0, 0)])
    clock = Clock()
    peers = PeerSaves(0, 2, now=clock)
    assert told(peers, tmp_path, range(10, 12)) == []
    clock.seconds = 60
    assert "step 10 is not whole: rank 1 has not" in told(peers, tmp_path, range(12, 13))[0]


def test_ranks_that_save_or_are_not_here_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    write_arena(tmp_path / "rank-1.arena", [(2, 4)])
    (tmp_path / "rank-2.arena").write_bytes(b"of another version")
    assert told(PeerSaves(0, 4), tmp_path, range(40)) == []
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert "rank 3 has not saved it" in told(PeerSaves(0, 4), tmp_path, range(40))[0]
    assert told(PeerSaves(0, 1), tmp_path, range(40)) == []
    assert not any(PeerSaves(0, 4).warning(SavedStep(4, 0, step), "") for step in range(40))


SCRIPT = """
import sys, torch, torch.distributed as dist, paceline.torch as pl
dist.init_process_group("gloo")
ckpt = pl.Checkpointer(sys.argv[1])
state = {"x": torch.zeros(4)}
start = ckpt.restore(state)
for step in range(start, 12):
    dist.barrier()
    if dist.get_rank() == 0 or sys.argv[2] == "all":
        ckpt.save(step, state)
ckpt.close()
"""


@pytest.mark.parametrize("who", ["rank 0", "all"])
def test_in_a_job(tmp_path: Path, who: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = [find_binary(), "run", "--nproc-per-node", "2", "--max-restarts", "0", "--run-dir",
             str(tmp_path / "run"), str(script), str(tmp_path / "c"), who]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    told = "step 0 is not whole: rank 1 has not saved it; every rank has to call save()"
    assert (done.stdout + done.stderr).count(told) == (1 if who == "rank 0" else 0)
