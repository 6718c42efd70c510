"""One directory has one writer at a time, and what was closed may be opened again."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from agent_double import wait_until
from command import find_binary
from keepers import await_release, stopped_keeper
from paceline._storage import directory_id
from paceline.torch import Checkpointer, CheckpointError

pytestmark = pytest.mark.usefixtures("own_keeper")


def state(value: float = 0.0) -> dict[str, object]:
    return {"x": torch.full((4,), value)}


def restored(ckpt: Checkpointer) -> tuple[int, float]:
    found = state(-1.0)
    step = ckpt.restore(found)
    tensor = found["x"]
    assert isinstance(tensor, torch.Tensor)
    return step, float(tensor[0])


def test_a_second_one_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    first = Checkpointer(tmp_path / "c")
    with pytest.raises(CheckpointError) as refused:
        Checkpointer(tmp_path / "c")
    assert "this process saves to that directory already" in str(refused.value)
    assert f"{__file__}:" in str(refused.value)
    assert "pl.load" in str(refused.value)
    first.save(0, state(1))
    first.close()


def test_one_that_nobody_has_any_more_counts_as_closed(tmp_path: Path) -> None:
    first = Checkpointer(tmp_path / "c")
    first.save(3, state(3))
    del first
    with Checkpointer(tmp_path / "c") as ckpt:
        assert restored(ckpt) == (4, 3.0)


def test_a_script_that_failed_in_its_block_may_open_it_again(tmp_path: Path) -> None:
    def fail() -> None:
        with Checkpointer(tmp_path / "c") as ckpt:
            ckpt.save(2, state(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as kept:
        fail()
    with Checkpointer(tmp_path / "c") as ckpt:  # while the failed one still has a name
        assert restored(ckpt) == (3, 2.0)
    assert kept.value is not None


def test_a_closed_one_saves_nothing_and_says_so(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c")
    ticket = ckpt.save(0, state(1))
    ckpt.close()
    ckpt.close()
    ticket.wait("memory")
    ticket.wait("durable")
    with pytest.raises(CheckpointError, match="cannot save: this Checkpointer is closed"):
        ckpt.save(1, state(2))
    with pytest.raises(CheckpointError, match="cannot restore: this Checkpointer is closed"):
        ckpt.restore(state())


def test_a_new_one_restores_what_the_closed_one_saved(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "c") as ckpt:
        for step in range(3):
            ckpt.save(step, state(step))
    with Checkpointer(tmp_path / "c") as ckpt:
        assert restored(ckpt) == (3, 2.0)


def test_a_restore_after_saves_gives_the_last_of_them(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(state()) == 0
        for step in (7, 8, 3):
            ckpt.save(step, state(step))
        assert restored(ckpt) == (4, 3.0)
        assert ckpt.restored == "goes on after step 3 (branch 1), which this world saved"


def test_another_process_may_save_after_a_close(tmp_path: Path) -> None:
    """A notebook has closed its Checkpointer, and lives on."""
    ckpt = Checkpointer(tmp_path / "c")
    ckpt.save(0, state(1))
    ckpt.close()
    other = (
        "import sys, torch, paceline.torch as pl\n"
        "with pl.Checkpointer(sys.argv[1]) as ckpt:\n"
        "    x = {'x': torch.zeros(4)}\n"
        "    assert ckpt.restore(x) == 1, ckpt.restored\n"
        "    ckpt.save(1, x)\n"
    )
    words = [sys.executable, "-c", other, str(tmp_path / "c")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SEVERAL = """
import sys, torch, torch.distributed as dist, paceline.torch as pl
dist.init_process_group("gloo")
path, rank = sys.argv[1], dist.get_rank()
with pl.Checkpointer(path) as ckpt:
    x = {"x": torch.zeros(4)}
    start = ckpt.restore(x)
    for step in range(start, 10):
        x["x"].fill_(step)
        ckpt.save(step, x)
other = {"x": torch.zeros(4)}
with pl.Checkpointer(path, keep=9) as again:  # a job keeps its first terms
    step = again.restore(other)
    told = [f"again {step} {other['x'][0]:.0f} {again.restored}"]
    x["x"].fill_(10)
    again.save(step, x)
try:
    pl.Checkpointer(path + "-ema")
except pl.CheckpointError as error:
    told.append(str(error))
open(f"{path}-told-{rank}", "w").write(chr(10).join(told))
"""


def test_in_a_job_of_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SEVERAL)
    words = [find_binary(), "run", "--nproc-per-node", "2", "--max-restarts", "0", "--run-dir",
             str(tmp_path / "run"), str(script), str(tmp_path / "c")]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        told = (tmp_path / f"c-told-{rank}").read_text()
        assert "again 10 9 goes on after step 9, which this world saved" in told
        assert "a job has one Checkpointer" in told
        assert f"this rank made one for {tmp_path}/c already" in told
    assert "keeps the job's terms" in done.stderr


def test_a_directory_that_was_deleted_is_gone(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(4, state(4))
    shutil.rmtree(tmp_path / "c")
    with Checkpointer(tmp_path / "c") as ckpt:
        assert restored(ckpt) == (0, -1.0)


def test_a_directory_without_a_marker_gets_one_and_keeps_its_checkpoints(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(4, state(4))
    (tmp_path / "c" / directory_id.MARKER).unlink()
    with Checkpointer(tmp_path / "c") as ckpt:
        assert restored(ckpt) == (5, 4.0)
    assert (tmp_path / "c" / directory_id.MARKER).exists()


def test_a_backup_that_was_copied_back_is_what_counts(tmp_path: Path) -> None:
    """Memory has what was saved after the backup was made."""
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(4, state(4))
    await_release(tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "backup")
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(9, state(9))
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(tmp_path / "backup", tmp_path / "c")
    with Checkpointer(tmp_path / "c") as ckpt:
        assert restored(ckpt) == (5, 4.0)


def test_what_cannot_be_read_or_is_not_mounted_was_not_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, folder = tmp_path / "c", tmp_path / "runtime"
    place.mkdir()
    folder.mkdir()

    def key(*, has_memory: bool = True) -> str:
        return directory_id.look_up(str(place), folder, lambda _: has_memory, 10.0)[0]

    first = key()
    assert key() == first
    note = next(folder.iterdir())
    (place / directory_id.MARKER).unlink()
    elsewhere = json.loads(note.read_text())
    elsewhere["identity"]["device"] += 1
    note.write_text(json.dumps(elsewhere))
    assert key() == first
    assert "is not mounted; training goes on from memory" in capsys.readouterr().err
    assert not (place / directory_id.MARKER).exists()
    (place / directory_id.MARKER).mkdir()  # any error but that there is none
    assert key() == first
    told = capsys.readouterr().err
    assert "cannot be read (Is a directory); training goes on from memory" in told
    (place / directory_id.MARKER).rmdir()
    assert key(has_memory=False) != first


HOLDS = """
import os, sys, time, torch, paceline.torch as pl
ckpt = pl.Checkpointer(sys.argv[1], every=1)
x = {"x": torch.full((4,), 7.0)}
start = ckpt.restore(x)
ckpt.save(start, x).wait()
open(sys.argv[1] + "-held", "w").close()
while not os.path.exists(sys.argv[1] + "-stop"):
    time.sleep(0.05)
ckpt.close()
"""

TRIES = """
import sys, torch, paceline.torch as pl
try:
    ckpt = pl.Checkpointer(sys.argv[1])
except pl.CheckpointError as error:
    print("refused:", error, flush=True)
    sys.exit(3)
x = {"x": torch.zeros(4)}
print("start", ckpt.restore(x), flush=True)
ckpt.save(100, x)
ckpt.close()
"""


@contextmanager
def holder(place: Path, *, launched: bool, name: str = "first") -> Iterator[subprocess.Popen[str]]:
    """A training that has the directory."""
    script = place.parent / "holds.py"
    script.write_text(HOLDS)
    command = [sys.executable, str(script), str(place)]
    if launched:
        command = [find_binary(), "run", "--nproc-per-node", "1", "--run-dir",
                   str(place.parent / name), str(script), str(place)]  # fmt: skip
    held, stop = Path(f"{place}-held"), Path(f"{place}-stop")
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(held.exists, "the first one saves")
        yield child
    finally:
        stop.touch()
        child.communicate(timeout=300)


def attempt(place: Path, *, launched: bool, name: str = "second") -> tuple[int, str]:
    script = place.parent / "tries.py"
    script.write_text(TRIES)
    command = [sys.executable, str(script), str(place)]
    if launched:
        command = [find_binary(), "run", "--nproc-per-node", "1", "--max-restarts", "0",
                   "--run-dir", str(place.parent / name), str(script), str(place)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("first", "second"), [(False, False), (False, True), (True, False),
                                               (True, True)])  # fmt: skip
def test_two_on_one_host_are_refused_and_one_after_the_other_is_not(
    tmp_path: Path, *, first: bool, second: bool
) -> None:
    place = tmp_path / "c"
    with holder(place, launched=first) as child:
        code, said = attempt(place, launched=second)
        assert code != 0, said
        if first == second is False:
            assert f"process {child.pid} has a Checkpointer open there" in said
        else:
            assert "another job saves to that directory" in said
        assert "pl.load(directory, state)" in said
    code, said = attempt(place, launched=second, name="third")
    assert code == 0, said
    assert "start 1" in said


def test_a_job_whose_processes_were_killed_holds_nothing(tmp_path: Path) -> None:
    place = tmp_path / "c"
    with holder(place, launched=True) as child:
        claim = json.loads((place / ".paceline-claim").read_text())
        for pid in (child.pid, claim["pid"]):
            os.kill(pid, signal.SIGKILL)
        code, said = attempt(place, launched=False)
    assert code == 0, said
    assert "which has ended" in said
    assert "start 1" in said
    end_master_of(tmp_path / "first")


def end_master_of(run_dir: Path) -> None:
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"master" in command and str(run_dir).encode() in command:
            with suppress(ProcessLookupError):  # it may end by itself now
                os.kill(int(entry.name), signal.SIGKILL)
    job = json.loads((run_dir / "job.json").read_text())["id"]
    shutil.rmtree(f"/dev/shm/paceline-{os.getuid()}/{job}", ignore_errors=True)


def test_a_claim_of_another_host_that_is_silent_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "c"
    place.mkdir()
    claim = {"schema": "paceline.claim/1", "job_id": "lost", "host": "far", "boot_id": "other",
             "pid_space": 1, "pid": 17, "start_ticks": 3, "since": "2026-11-25T01:00:00Z",
             "beat": 9}  # fmt: skip
    (place / ".paceline-claim").write_text(json.dumps(claim))
    code, said = attempt(place, launched=False)
    assert code == 0, said
    assert "waits up to 30 s to see whether job lost (process 17 on far" in said
    assert "which was silent for 30 s" in said


def test_a_claim_of_another_host_that_changes_is_the_error(tmp_path: Path) -> None:
    place = tmp_path / "c"
    place.mkdir()
    claim = {"schema": "paceline.claim/1", "job_id": "alive", "host": "far", "boot_id": "other",
             "pid_space": 1, "pid": 17, "start_ticks": 3, "since": "2026-11-25T01:00:00Z",
             "beat": 9}  # fmt: skip
    is_over = threading.Event()

    def renew() -> None:
        for beat in itertools.count(10):
            making = place / "making"
            making.write_text(json.dumps(claim | {"beat": beat}))
            making.replace(place / ".paceline-claim")
            if is_over.wait(0.5):
                return

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        wait_until((place / ".paceline-claim").exists, "the claim is there")
        code, said = attempt(place, launched=False)
    finally:
        is_over.set()
        renewing.join()
    assert code == 3, said
    assert "another job saves to that directory" in said
    assert "job alive (process 17 on far" in said
    assert json.loads((place / ".paceline-claim").read_text())["job_id"] == "alive"


def replace_claim(path: Path, claim: dict[str, object]) -> None:
    """Write it at a moment at which the keeper does not renew its own.

    A renewal that has begun would replace it again: only silent keepers have competitors.
    """

    def is_replaced() -> bool:
        with stopped_keeper():
            is_renewed_now = any(path.parent.glob(f"{path.name}.new-*"))
            if not is_renewed_now:
                path.write_text(json.dumps(claim))
        return not is_renewed_now

    wait_until(is_replaced, "the keeper renews its claim")


def test_a_writer_whose_claim_is_taken_trains_on_and_commits_nothing(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c", every=1)
    assert ckpt.restore(state()) == 0
    ckpt.save(0, state(1)).wait("durable")
    path = tmp_path / "c" / ".paceline-claim"
    thief = json.loads(path.read_text()) | {"job_id": "thief", "boot_id": "other"}
    replace_claim(path, thief)
    ticket = ckpt.save(1, state(2))
    with pytest.raises(CheckpointError, match="is another job's now: job thief"):
        ticket.wait("durable")
    assert ckpt.save(2, state(3)).is_saved
    with pytest.raises(CheckpointError, match="is another job's now: job thief"):
        ckpt.close()
    assert json.loads(path.read_text()) == thief
    assert (tmp_path / "c" / "LATEST").read_text().startswith("step-0-")
