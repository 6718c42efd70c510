"""Ranks of other launchers agree on their world, whatever a former start left in the store."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from paceline._checkpoint import foreign_world
from paceline._checkpoint.foreign_world import ForeignWorld, Own, find_group, launcher, meet
from paceline.errors import CheckpointError


class Store:
    """What all ranks see; it may be given to the next start of them, as torchrun does."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.lock = threading.Lock()


class Rank:
    """A group of `size` ranks, seen from one of them. Each start of a rank is another `name`."""

    def __init__(self, store: Store, rank: int, size: int, name: str) -> None:
        self.store, self.rank, self.size, self.name = store, rank, size, name

    def put(self, key: str, text: str) -> None:
        with self.store.lock:
            self.store.texts[key] = text

    def read(self, key: str) -> str | None:
        with self.store.lock:
            return self.store.texts.get(key)


Found = dict[int, ForeignWorld | CheckpointError]


def meet_all(
    store: Store, start: str, folders: list[Path], terms: dict[int, str] | None = None
) -> Found:
    """Each rank in a thread; the last one comes last, when the others have long looked."""
    found: Found = {}
    met = threading.Barrier(len(folders) - 1)

    def one(rank: int) -> None:
        group = Rank(store, rank, len(folders), f"{start}-{rank}")
        wanted: foreign_world.Fields = {"directory": (terms or {}).get(rank, "/d")}
        if rank < len(folders) - 1:
            met.wait()
        try:
            own = Own("/d", wanted, folders[rank], f"key {rank}")
            found[rank] = meet(group, own, lambda words: f"join {words}")
        except CheckpointError as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=[rank]) for rank in range(len(folders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def words_of(found: Found) -> list[foreign_world.Fields]:
    worlds = [found[rank] for rank in sorted(found)]
    assert all(isinstance(world, ForeignWorld) for world in worlds), worlds
    return [world.words for world in worlds if isinstance(world, ForeignWorld)]


def test_all_ranks_of_a_start_are_in_one_world(tmp_path: Path) -> None:
    found = meet_all(Store(), "a", [tmp_path] * 3)
    words = words_of(found)
    assert words[0]["seats"] == [[0, 0, 3]] and "join" not in words[0]
    keys = {world.key for world in found.values() if isinstance(world, ForeignWorld)}
    assert keys == {"key 0"}
    assert words[1] == words[0] and words[2] == words[0]
    starts = [world.starts_keeper for world in found.values() if isinstance(world, ForeignWorld)]
    assert sorted(starts) == [False, False, True]


def test_a_store_that_holds_the_start_before_misleads_nobody(tmp_path: Path) -> None:
    store = Store()
    attempts = []
    for start in range(20):
        words = words_of(meet_all(store, f"start{start}", [tmp_path] * 4))
        assert len({word["attempt"] for word in words}) == 1
        attempts.append(words[0]["attempt"])
    assert len(set(attempts)) == 20


def test_hosts_are_told_apart_and_the_first_one_leads(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    a, b = folders
    words = words_of(meet_all(Store(), "hosts", [a, a, b, b, a]))
    assert words[0]["seats"] == [[0, 0, 2], [1, 2, 2], [0, 4, 1]]
    assert [word["host"] for word in words] == [0, 0, 1, 1, 0]
    assert all(str(word["join"]).startswith("join ") for word in words)
    assert all(word["address"] for word in words)


def test_ranks_that_disagree_hear_about_what(tmp_path: Path) -> None:
    found = meet_all(Store(), "differ", [tmp_path] * 3, {1: "/other"})
    for error in found.values():
        assert isinstance(error, CheckpointError)
        assert "directory is /d on rank 0, /other on rank 1" in str(error)


def test_without_a_process_group_the_error_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CheckpointError, match="call init_process_group first"):
        find_group("/d")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert find_group("/d") is None


TELL = (
    "import json; from paceline._checkpoint.foreign_world import launcher;"
    "print(json.dumps(launcher()))"
)
# As the worker of Ray: its rank comes when it runs already.
TELL_AS_RAY = "import os; os.environ['RANK'] = '0'; import os as o; print(o.getpid());" + TELL


def run(script: str, **variables: str) -> list[str]:
    """In a shell that has the rank too, as a script that srun starts."""
    names = ("RANK", "SLURM_PROCID", "WORLD_SIZE")
    bare = {key: value for key, value in os.environ.items() if key not in names}
    shell = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, script]
    done = subprocess.run(shell, env={**bare, **variables}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID"])
def test_the_launcher_is_the_nearest_ancestor_that_is_no_rank(name: str) -> None:
    (line,) = run(TELL, **{name: "1"})
    assert json.loads(line)["pid"] == os.getpid()
    assert json.loads(line)["start"] == launcher()["start"]


def test_a_worker_of_ray_is_its_own_launcher() -> None:
    own, line = run(TELL_AS_RAY)
    assert json.loads(line)["pid"] == int(own)


AS_SRUN = """
import os, torch.distributed as dist, paceline as pl
assert (pl.rank(), pl.world_size()) == (0, 1), "nobody has said anything yet"
dist.init_process_group("gloo", init_method=f"file://{os.environ['MEET']}",
                        rank=int(os.environ["SLURM_PROCID"]),
                        world_size=int(os.environ["SLURM_NTASKS"]))
import paceline.torch as plt
loader = plt.ElasticLoader(plt.ElasticDataset(range(40), seed=1), global_batch=8)
print(pl.rank(), pl.world_size(), loader.rank, loader.world_size)
"""


def test_ranks_of_srun_know_their_place_from_the_process_group(tmp_path: Path) -> None:
    """Slurm's environment, simulated: it has no RANK and no WORLD_SIZE."""
    bare = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", AS_SRUN],
            env={**bare, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "MEET": f"{tmp_path}/m"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [one.communicate()[0].split() for one in ranks]
    assert said == [["0", "2", "0", "2"], ["1", "2", "1", "2"]]
