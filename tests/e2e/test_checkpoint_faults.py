"""Rows of the table in docs/status/checkpoint-faults.md that need a whole job, by their numbers."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from false_clock import YEAR, FalseClock, needs_compiler
from hosts import Host, needs_hosts, start
from job import DEADLINE_S, SCRIPTS, Job, binary, eventually
from paceline._base.processes import stat_of
from test_peers import STEADY, until_fetched

torch = pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")

NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "1"]
Done = subprocess.CompletedProcess[str]


def words(job: Job, *args: str, steps: int = 100_000, out: Path | None = None) -> list[str]:
    return [str(SCRIPTS / "flash.py"), "--checkpoint", str(job.directory / "ckpt"),
            "--out", str(out or job.state), "--steps", str(steps), *args]


def stored(job: Job) -> list[dict[str, object]]:
    done = job.command("ckpt", "ls", "--json", str(job.directory / "ckpt"))
    return json.loads(done.stdout)["checkpoints"] if done.returncode == 0 else []


def verified(job: Job) -> bool:
    return job.command("ckpt", "verify", str(job.directory / "ckpt")).returncode == 0


def restored(folder: Path, rank: int) -> list[tuple[int, str]]:
    path = folder / f"restored-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split(" ", 2)[1]), line.split(" ", 2)[2]) for line in lines]


def end_well(job: Job) -> None:
    """It ends by itself, with its last step and retention done. A stop has a time limit."""
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr


def every_value(folder: Path) -> set[float]:
    """Of all tensors of a checkpoint, read by safetensors."""
    from safetensors.torch import load_file

    found: set[float] = set()
    for path in sorted(folder.glob("*.safetensors")):
        for tensor in load_file(path).values():
            found |= set(tensor.unique().tolist())
    return found


def test_row_11_a_zombie_writes_after_a_restart(job: Job) -> None:
    """A node that was given up goes on writing when it thaws, and nothing of it gets anywhere."""
    job.env |= STEADY
    job.start([*NODES, "--spares", "1"], words(job, "--every", "15", "--cut"))
    before = job.until_stepping(2, beyond=20)
    lost = before[1]["node"]
    with job.frozen(lost) as zombies:
        job.until_event("node_lost")
        after = eventually(lambda: (lambda found: found if len(found) == 2 and 1 in found
                                    and found[1]["node"] != lost else None)(job.ranks()),
                           "the spare has rank 1")
        eventually(lambda: len(restored(job.state, 0)) >= 2, "the others have restored")
        resumed = restored(job.state, 0)[-1][0]
        assert after[1]["pid"] not in zombies
        # The new world saves steps that the zombie will save as well, with other values.
        job.until_stepping(2, beyond=resumed + 40)
    count = len(job.events("checkpoint_committed"))
    eventually(lambda: not os.path.exists(f"/proc/{zombies[1]}") or None, "the zombie is ended")
    job.until_event("checkpoint_committed", count + 2)
    end_well(job)
    newest = stored(job)
    assert verified(job)
    for one in newest:
        assert int(str(one["generation"])) >= 2, "the zombie's world commits nothing any more"
        step = int(str(one["step"]))
        # Rank r begins at 1000 r, and each step adds one: a mix would have other values.
        assert every_value(job.directory / "ckpt" / str(one["name"])) == {
            step + 1.0, 1000.0 + step + 1.0}


def test_row_12_a_second_agent_of_a_node_refuses(job: Job) -> None:
    job.be_patient().start(["--standalone", "--nproc-per-node", "2"], words(job, "--every", "20"))
    before = job.until_stepping(2, beyond=10)
    agent = job.agent_pid("node0")
    command = Path(f"/proc/{agent}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    values = Path(f"/proc/{agent}/environ").read_bytes().decode().split("\0")
    environment = dict(one.split("=", 1) for one in values if "=" in one)
    second = subprocess.run([str(binary()), *command[1:]], env=environment, cwd=job.directory,
                            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert second.returncode == 2, second.stderr
    assert "another agent" in second.stderr and str(agent) in second.stderr, second.stderr
    step = job.step()
    after = job.until_stepping(2, beyond=step + 40)
    assert [after[rank]["pid"] for rank in after] == [before[rank]["pid"] for rank in before]
    assert job.agent_pid("node0") == agent
    job.until_event("checkpoint_committed")


@needs_hosts
def test_row_14_a_damaged_slot_is_replaced_by_a_copy(hosts: list[Host]) -> None:
    """The shard comes from the host that has a copy; where there is none, it is an older step."""
    first, second, _ = hosts
    out = first.job.directory / "out"
    script = words(first.job, "--cut", "--every", "1000000", "--hold", "390", steps=400, out=out)
    first.job.be_patient()
    start([first, second], "--nnodes", "2", script=script)
    first.job.until_stepping(2, beyond=60)
    until_fetched(first, 40)
    # The second host's rank stands still, each image of its own gets a flipped bit, and it dies.
    pid = first.job.ranks()[1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    (arena,) = second.memory.glob("paceline-*/*/*/rank-1.arena")
    assert spoil(arena) >= 2
    os.kill(pid, signal.SIGKILL)
    (out / "go").touch()
    assert first.job.wait() == 0, first.job.stderr
    assert [float((out / f"final-{rank}").read_text()) for rank in range(2)] == [400.0] * 2
    step, why = restored(out, 1)[-1]
    assert f"from {first.name}'s memory" in why, why
    assert step >= 40 and restored(out, 0)[-1][0] == step, "one step for all"
    assert not first.job.events("checkpoint_committed")[:-1], "storage had no part in it"


def spoil(arena: Path) -> int:
    """Flips a bit in every image of it; how many there are. All numbers of a tensor are equal."""
    with arena.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        def is_tensors(at: int) -> bool:
            page = memory[at : at + 4096]
            return page[:4] != bytes(4) and page == page[:4] * 1024

        pages = {at for at in range(0, len(memory) - 4095, 4096) if is_tensors(at)}
        begins = [at for at in pages if at - 4096 not in pages]
        for at in begins:
            memory[at + 100] ^= 1
        return len(begins)


SMALL_SHM = """
import os, sys, torch, paceline.torch as pl
folder, steps = sys.argv[1], int(sys.argv[2])
net = torch.nn.Linear(1000, 1000)
try:
    checkpointer = pl.Checkpointer(folder, every=1000000)
    begin = checkpointer.restore({"net": net})
except pl.CheckpointError as error:
    print(error)
    sys.exit(7)
print("from", begin, float(net.weight[0, 0]) if begin else None)
for step in range(begin, begin + steps):
    torch.nn.init.constant_(net.weight, step)
    checkpointer.save(step, {"net": net})
if len(sys.argv) > 3:
    os.kill(os.getpid(), 9)
checkpointer.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_row_28_a_dev_shm_of_64_mb_is_a_disks_work(tmp_path: Path) -> None:
    """What a container has unless it is told otherwise: images go to /var/tmp, and it is said."""
    with in_small_memory(tmp_path, "/dev/shm") as (run, enlarge):
        first = run("3", "and dies")
        assert first.returncode == -signal.SIGKILL, first.stderr
        assert "are on a disk, in /var/tmp/paceline-" in first.stderr, first.stderr
        assert "/dev/shm has 67.1 MB left" in first.stderr, first.stderr
        # Room that comes later does not cost what lies on the disk.
        enlarge("/dev/shm")
        second = run("1")
        assert "from 3 2.0" in second.stdout, (second.stdout, second.stderr)
        assert "they were begun there" in second.stderr, second.stderr
        assert second.returncode == 0, second.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_row_28_no_room_anywhere_is_said_at_once(tmp_path: Path) -> None:
    with in_small_memory(tmp_path, "/dev/shm", "/var/tmp") as (run, _):
        done = run("1")
        assert done.returncode == 7, done.stderr
        assert "/dev/shm has 67.1 MB left" in done.stdout, done.stdout
        assert "/var/tmp has 67.1 MB left" in done.stdout, done.stdout
        assert all(part in done.stdout for part in ("where", "why", "fix")), done.stdout


@contextmanager
def in_small_memory(
    tmp_path: Path, *small: str
) -> Iterator[tuple[Callable[..., Done], Callable[[str], Done]]]:
    """Runs the script where these are file systems of 64 MB, until one is enlarged."""
    env = {**os.environ, "PACELINE_RUNTIME_DIR": str(tmp_path / "rt")}
    env.pop("PACELINE_CHECKPOINT_SOCKET", None)
    script = tmp_path / "script.py"
    script.write_text(SMALL_SHM)
    mounts = "".join(f"mount -t tmpfs -o size=64m none {place} && " for place in small)
    space = subprocess.Popen(["unshare", "--mount", "sh", "-c", f"{mounts} echo ready; cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert space.stdin is not None and space.stdout is not None
    assert space.stdout.readline() == "ready\n"

    def inside(*command: str) -> Done:
        return subprocess.run(
            ["nsenter", "--mount", f"--target={space.pid}", f"--wdns={tmp_path}", *command],
            env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def run(*words: str) -> Done:
        return inside(sys.executable, str(script), str(tmp_path / "c"), *words)

    def enlarge(place: str) -> Done:
        return inside("mount", "-o", "remount,size=4g", place)

    try:
        yield run, enlarge
    finally:
        space.stdin.close()
        space.wait()


@needs_compiler
def test_row_45_clocks_that_jump_change_nothing(
    make_job: Callable[..., Job], tmp_path: Path
) -> None:
    clock = FalseClock(tmp_path)
    job = make_job("run")
    job.env = {**job.env, **clock.env}
    job.be_patient().start(NODES, words(job, "--every", "1s", "--cut"))
    ranks = job.until_stepping(2, beyond=20)
    job.until_event("checkpoint_committed")
    for jump in (3 * YEAR, -3 * YEAR, 0):
        clock.set(jump)
        count = len(job.events("checkpoint_committed"))
        job.until_event("checkpoint_committed", count + 3)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    eventually(lambda: len(restored(job.state, 1)) >= 2, "rank 1 goes on", job=job)
    job.until_stepping(2, beyond=restored(job.state, 1)[-1][0] + 20)
    clock.set(-YEAR)
    count = len(job.events("checkpoint_committed"))
    job.until_event("checkpoint_committed", count + 1)
    assert [event["rank"] for event in job.events("rank_failed")] == [1], "nobody was given up"
    assert "from memory" in restored(job.state, 1)[-1][1]
    end_well(job)
    assert len(stored(job)) == 2 and verified(job), "retention went on"


def test_row_46_a_stop_brings_the_newest_step_to_storage(job: Job) -> None:
    """Also by a master that was stopped: the launcher continues it."""
    # A node that is lost at the stop would take the newest step with it.
    job.be_patient().start(["--standalone", "--nproc-per-node", "2", "--stop-grace", "20s"],
                           words(job, "--every", "1000000", "--cut"))
    job.until_stepping(2, beyond=40)
    assert job.launcher is not None
    master = job.card["master"]["pid"]
    os.kill(master, signal.SIGSTOP)
    eventually(lambda: stat_of(master)[:1] == ["T"], "the master is stopped")
    job.launcher.send_signal(signal.SIGTERM)
    assert job.wait() == 143, job.stderr
    assert "It is continued, to end the job" in job.stderr
    # Two when a rank saved once more while the first was on its way.
    assert max(int(str(one["step"])) for one in stored(job)) >= 40 and verified(job)


def test_row_46_a_store_that_is_away_does_not_hold_up_a_stop(make_job: Callable[..., Job]) -> None:
    pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")
    from object_store import BUCKET, ObjectStore

    store = ObjectStore()
    try:
        job = make_job("run")
        job.env = {**job.env, **store.environment()}
        job.be_patient().start(
            ["--standalone", "--nproc-per-node", "2", "--stop-grace", "3s"],
            [str(SCRIPTS / "flash.py"), "--checkpoint", f"s3://{BUCKET}/runs/gpt", "--out",
             str(job.state), "--steps", "100000", "--every", "10", "--cut"])
        job.until_event("checkpoint_committed")
        store.stop()
        job.until_stepping(2, beyond=job.step() + 20)
        assert job.launcher is not None
        job.launcher.send_signal(signal.SIGTERM)
        assert job.wait() != 0  # and it ends
        assert "is not in storage" in job.stderr, job.stderr
        eventually(lambda: not job.leftovers(), "nothing of the job lives")
    finally:
        store.start()
        store.stop()


def test_row_48_a_checkpoint_of_a_newer_format_is_refused(job: Job, make_job) -> None:
    job.be_patient().start(["--standalone"], words(job, "--every", "1h", steps=20))
    assert job.wait() == 0, job.stderr
    (only,) = stored(job)
    manifest = job.directory / "ckpt" / str(only["name"]) / "MANIFEST.json"
    text = manifest.read_text().replace("paceline.checkpoint/1", "paceline.checkpoint/2")
    manifest.write_text(text)
    shown = job.command("ckpt", "show", str(job.directory / "ckpt" / str(only["name"])))
    assert shown.returncode == 2 and "a newer version of paceline" in shown.stderr, shown.stderr
    second = make_job("second")
    second.start(["--standalone"], words(job, steps=40, out=second.state))
    assert second.wait() == 1, "it does not begin anew beside it"
    assert "written by a newer paceline" in second.stderr, second.stderr
    assert manifest.read_text() == text, "and nothing was removed"


def test_row_49_random_states_of_another_number_of_ranks(job: Job, make_job) -> None:
    """Each rank has its own; when their number changes they begin anew, and that is said."""
    def run(one: Job, ranks: int) -> str:
        out = job.directory / f"out-{ranks}.pt"
        one.be_patient().start(
            ["--standalone", "--nproc-per-node", str(ranks)],
            [str(SCRIPTS / "sharded.py"), "--checkpoint", str(job.directory / "ckpt"),
             "--steps", "3", "--out", str(out)])
        assert one.wait() == 0, one.stderr
        return torch.load(out, weights_only=True)["why"]

    run(job, 2)
    said = "random generators get new seeds, because the number of ranks has changed"
    assert said in run(make_job("three"), 3)
    assert said not in run(make_job("two"), 2)
