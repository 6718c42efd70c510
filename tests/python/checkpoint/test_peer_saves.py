"""A script whose rank 0 alone saves is told so, and one with a late rank is not."""

import struct
import subprocess
from pathlib import Path

import pytest
from command import find_binary
from paceline._checkpoint.peer_saves import PeerSaves, slots_of
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


def told(
    peers: PeerSaves, arena: Path, steps: range, clock: Clock, seconds: float = 1.0
) -> list[str]:
    """What saves of these steps tell; each comes `seconds` after the one before."""
    texts: list[str] = []
    for step in steps:
        clock.seconds += seconds
        texts.append(peers.warning(SavedStep(4, 0, step), str(arena / "rank-0.arena")))
    return [text for text in texts if text]


def test_slots_are_read_with_their_state_and_generation(tmp_path: Path) -> None:
    slots = [(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)]
    write_arena(tmp_path / "rank-1.arena", slots)
    assert slots_of(str(tmp_path / "rank-1.arena")) == slots


def test_a_rank_that_saves_nothing_is_named_once(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(2, 3), (4, 4)])  # of the world before
    write_arena(tmp_path / "rank-2.arena", [(0, 0)])
    write_arena(tmp_path / "rank-3.arena", [(2, 4)])
    clock = Clock()
    (sentence,) = told(PeerSaves(0, 4, now=clock), tmp_path, range(10, 100), clock)
    assert sentence == (
        "step 10 is not whole after 30 s: ranks 1, 2 have not saved it; "
        "every rank has to call save()"
    )


def test_a_rank_that_is_only_later_is_not_named(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(0, 0)])  # it has restored, and is to save
    clock = Clock()
    peers = PeerSaves(0, 2, now=clock)
    assert told(peers, tmp_path, range(2000), clock, seconds=0.01) == []
    write_arena(tmp_path / "rank-1.arena", [(1, 0)])  # its first save
    assert told(peers, tmp_path, range(2000, 4000), clock) == []
    write_arena(tmp_path / "rank-1.arena", [(2, 4)])
    assert told(peers, tmp_path, range(4000, 6000), clock) == []


def test_others_get_three_times_what_this_rank_took(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(0, 0)])
    clock = Clock()
    peers = PeerSaves(0, 2, now=clock)
    clock.seconds = 599.0  # a long restore
    assert told(peers, tmp_path, range(10, 1800), clock) == []
    (sentence,) = told(peers, tmp_path, range(1800, 1900), clock)
    assert sentence.startswith("step 10 is not whole after 1800 s: rank 1 has not saved it")


def test_one_late_save_is_enough_where_steps_are_slow(tmp_path: Path) -> None:
    write_arena(tmp_path / "rank-1.arena", [(0, 0)])
    clock = Clock()
    peers = PeerSaves(0, 2, now=clock)
    assert told(peers, tmp_path, range(1), clock) == []
    (sentence,) = told(peers, tmp_path, range(1, 2), clock, seconds=60)
    assert sentence.startswith("step 0 is not whole after 60 s: rank 1 has not saved it")


def test_ranks_that_save_or_are_not_here_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    write_arena(tmp_path / "rank-1.arena", [(2, 4)])
    (tmp_path / "rank-2.arena").write_bytes(b"of another version")
    clock = Clock()
    assert told(PeerSaves(0, 4, now=clock), tmp_path, range(99), clock) == []
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    (sentence,) = told(PeerSaves(0, 4, now=clock), tmp_path, range(99), clock)
    assert "rank 3 has not saved it" in sentence
    assert told(PeerSaves(0, 1, now=clock), tmp_path, range(99), clock) == []
    alone = PeerSaves(0, 4, now=clock)
    assert not any(alone.warning(SavedStep(4, 0, step), "") for step in range(40))


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
    said = done.stdout + done.stderr
    assert " is not whole" not in said, "the others had no time yet"
    assert ("rank 1 has ended and has saved nothing" in said) == (who == "rank 0")
