"""Checkpoints under the real binary: what is killed, filled or damaged, and what goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from job import SCRIPTS, Job, binary, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")

NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2"]


def start(job: Job, flags: list[str], *args: str, steps: int = 200) -> Job:
    """No node of these jobs may be lost by its silence: that would be one more restore."""
    script = [str(SCRIPTS / "flash.py"), "--checkpoint", str(job.directory / "ckpt"),
              "--out", str(job.state), "--steps", str(steps), *args]
    return job.be_patient().start(flags, script)


def restored(job: Job, rank: int) -> list[tuple[int, int, str]]:
    path = job.state / f"restored-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    parts = [line.split(" ", 2) for line in lines]
    return [(int(generation), int(step), why) for generation, step, why in parts]


def finals(job: Job, ranks: int) -> list[float]:
    return [float((job.state / f"final-{rank}").read_text()) for rank in range(ranks)]


def arenas(job: Job) -> list[Path]:
    root = Path(f"/dev/shm/paceline-{os.getuid()}") / job.card["id"]
    return sorted(root.glob("*/rank-*.arena")) if root.exists() else []


def stored(job: Job) -> list[dict[str, object]]:
    done = job.command("ckpt", "ls", "--json", str(job.directory / "ckpt"))
    return json.loads(done.stdout)["checkpoints"] if done.returncode == 0 else []


def ended_after_commits(job: Job, count: int) -> tuple[list[int], int]:
    """Ends the job when so many checkpoints are in storage. All steps that got there, and its last
    step."""
    job.until_event("checkpoint_committed", count)
    (job.state / "enough").touch()
    assert job.wait() == 0, job.stderr
    committed = [event["step"] for event in job.events("checkpoint_committed")]
    return committed, int((job.state / "end").read_text())


def verify(job: Job) -> subprocess.CompletedProcess[str]:
    return job.command("ckpt", "verify", str(job.directory / "ckpt"))


@pytest.mark.parametrize("cut", [[], ["--cut"]])
def test_a_killed_rank_goes_on_from_memory(job: Job, cut: list[str]) -> None:
    start(job, NODES, "--hold", "190", *cut)
    ranks = job.until_stepping(4, beyond=20)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert finals(job, 4) == [200.0] * 4
    decided = job.events("restore_decided")[-1]
    assert decided["details"]["from"] == "memory"
    (failed,) = job.events("rank_failed")
    for rank in range(4):
        _, step, why = restored(job, rank)[-1]
        assert step >= failed["step"], "at most the step under way is lost"
        assert "from memory" in why
    assert len({restored(job, rank)[-1][1] for rank in range(4)}) == 1, "one step for all"
    assert verify(job).returncode == 0
    assert not arenas(job), "memory is given back"
    told = (job.status() or {})["checkpoints"]
    assert (told["memory_restores"], told["storage_restores"]) == (1, 0)
    assert told["restored_step"] == restored(job, 0)[-1][1] - 1


def test_a_lost_node_is_replaced_and_goes_on_from_memory(job: Job) -> None:
    flags = [*NODES, "--spares", "1", "--replace-nodes", "off"]
    start(job, flags, "--cut", "--hold", "290", steps=300)
    before = job.until_stepping(4, beyond=20)
    job.kill_node(before[2]["node"])
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert finals(job, 4) == [300.0] * 4
    assert job.events("restore_decided")[-1]["details"]["from"] == "memory"


def test_a_killed_agent_or_master_costs_no_save(job: Job) -> None:
    start(job, NODES, "--every", "25", "--hold", "290", steps=300)
    ranks = job.until_stepping(4, beyond=20)
    node = ranks[0]["node"]
    former = job.agent_pid(node)
    os.kill(former, signal.SIGKILL)
    eventually(lambda: job.agent_pid(node) != former, "a new agent", job=job)
    job.until_stepping(4, beyond=80)
    os.kill(job.card["master"]["pid"], signal.SIGKILL)
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert finals(job, 4) == [300.0] * 4
    assert len(restored(job, 0)) == 1, "nobody was restarted"
    assert next(one["step"] for one in stored(job)) == 299
    assert verify(job).returncode == 0


def test_steps_go_to_storage_as_asked_and_old_ones_go(job: Job) -> None:
    start(job, ["--standalone", "--nproc-per-node", "2"], "--every", "40", "--cut", steps=100_000)
    committed, last = ended_after_commits(job, 3)
    # A master or disk that is slow makes it a later step, and never an earlier one.
    assert all(step >= 40 * count for count, step in enumerate(committed[:-1], start=1)), committed
    assert committed[-1] == last, "close() brings the last step to storage"
    assert len(stored(job)) == 2, "keep=2"
    assert verify(job).returncode == 0


def test_status_tells_of_checkpoints_while_and_after_the_job(job: Job) -> None:
    start(job, NODES, "--every", "10", "--hold", "290", steps=300)

    def told() -> dict[str, object] | None:
        status = job.status()
        checkpoints = status["checkpoints"] if status is not None else None
        # The agents look at quick ranks one after the other: no step may be common to a look.
        if not checkpoints or checkpoints["memory_step"] is None:
            return None
        return checkpoints if (checkpoints["storage_step"] or 0) >= 10 else None

    while_running = eventually(told, "a checkpoint in storage")
    assert while_running["directory"] == str(job.directory / "ckpt")
    assert int(str(while_running["memory_step"])) >= int(str(while_running["storage_step"]))
    shown = job.command("status").stdout
    assert "checkpoints  in memory step" in shown, shown
    newest = int(shown.split("step ")[1].split()[0])
    rows = [line.split() for line in shown.splitlines() if line.startswith("node")]
    steps = [int(row[4]) for row in rows if row[1] == "seated"]
    assert steps and max(steps) <= newest, "a node's step is a step, not the number of reports"
    job.let_go()
    assert job.wait() == 0, job.stderr
    after = job.status()
    assert after is not None
    assert after["checkpoints"]["storage_step"] == 299, "what was committed is in the journal"
    assert after["checkpoints"]["problem"] == ""
    assert after["checkpoints"]["commits"] == len(job.events("checkpoint_committed"))
    assert after["checkpoints"]["restored_step"] is None, "it began anew"
    assert after["checkpoints"]["memory_restores"] == 0
    # Its run directory stands for the place of its checkpoints.
    listed = json.loads(job.command("ckpt", "ls", "--json", str(job.run_dir)).stdout)
    assert listed["checkpoints"][0]["step"] == 299
    assert job.command("ckpt", "verify", str(job.run_dir)).returncode == 0


def test_a_new_job_goes_on_from_storage(job: Job, make_job) -> None:
    start(job, ["--standalone", "--nproc-per-node", "2"], "--cut", steps=50)
    assert job.wait() == 0, job.stderr
    second = make_job("second")
    start(second, ["--standalone", "--nproc-per-node", "2"], "--cut", steps=80)
    assert second.wait() == 0, second.stderr
    assert [entry[1] for entry in restored(second, 1)] == [50]
    assert finals(second, 2) == [80.0] * 2


def test_a_script_that_fails_for_good_leaves_its_newest_step(job: Job, make_job) -> None:
    """The last world went on from memory and fell before its first save: that memory is all."""
    flags = ["--standalone", "--nproc-per-node", "2"]
    start(job, [*flags, "--max-restarts", "2"], "--every", "10m", "--fail", "20", steps=40)
    assert job.wait() == 1, job.stderr
    assert [entry[1] for entry in restored(job, 0)] == [0, 20, 20]
    assert [one["step"] for one in stored(job)] == [19], job.stderr
    assert not arenas(job), "what is in storage needs no memory"
    second = make_job("second")
    start(second, flags, steps=40)
    assert second.wait() == 0, second.stderr
    assert [entry[1] for entry in restored(second, 1)] == [20]


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(job: Job, make_job) -> None:
    flags = ["--standalone", "--nproc-per-node", "2"]
    start(job, flags, "--every", "20", "--cut", steps=100_000)
    _, last = ended_after_commits(job, 1)
    newest, before = stored(job)
    victim = job.directory / "ckpt" / str(newest["name"]) / "shard-00001.safetensors"
    with victim.open("r+b") as file:
        file.seek(100_000)
        byte = file.read(1)[0]
        file.seek(100_000)
        file.write(bytes([byte ^ 1]))
    found = verify(job)
    assert found.returncode == 5 and "shard-00001.safetensors" in found.stdout
    second = make_job("second")
    start(second, flags, "--cut", steps=last + 10)
    assert second.wait() == 0, second.stderr
    assert second.events("checkpoint_damaged")[0]["details"]["checkpoint"] == newest["name"]
    assert restored(second, 0)[-1][1] == int(str(before["step"])) + 1
    assert finals(second, 2) == [last + 10.0] * 2


def test_storage_that_is_away_during_a_restore_is_waited_for(job: Job, make_job) -> None:
    start(job, ["--standalone", "--nproc-per-node", "2"], "--every", "20", "--cut", steps=50)
    assert job.wait() == 0, job.stderr
    shard = job.directory / "ckpt" / str(stored(job)[0]["name"]) / "shard-00001.safetensors"
    aside = shard.with_suffix(".aside")
    shard.rename(aside)
    shard.symlink_to(shard.name)  # open() fails: too many levels of symbolic links
    second = make_job("second")
    start(second, ["--standalone", "--nproc-per-node", "2"], "--cut", steps=60)

    def is_told() -> bool:
        logs = (second.run_dir / "logs").rglob("*")
        return any("cannot be read now" in log.read_text(errors="replace")
                   for log in logs if log.is_file())

    eventually(is_told, "the rank says that it waits")
    aside.replace(shard)
    assert second.wait() == 0, second.stderr
    assert not second.events("checkpoint_damaged"), "nothing was found damaged"
    assert not second.events("rank_failed"), "and no restart was used up"
    assert restored(second, 1)[-1][1] == 50
    assert finals(second, 2) == [60.0] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_costs_checkpoints_and_never_a_step(job: Job) -> None:
    small = job.directory / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)], check=True)
    try:
        script = [str(SCRIPTS / "flash.py"), "--checkpoint", str(small / "ckpt"), "--out",
                  str(job.state), "--steps", "100000", "--every", "10", "--cut"]
        job.be_patient().start(["--standalone", "--nproc-per-node", "2"], script)
        job.until_stepping(2, beyond=60)
        log = job.run_dir / "logs" / "node0" / "agent.log"
        eventually(lambda: "No space left" in log.read_text(), "the agent says why")
        step = job.step()
        job.until_stepping(2, beyond=step + 20)
        assert not job.events("checkpoint_committed")
        # Room again: the next one that is due is complete.
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        job.until_event("checkpoint_committed")
        job.end()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_ranks_that_disagree_are_told_so(job: Job) -> None:
    script = job.directory / "two.py"
    script.write_text(
        "import paceline.torch as pl, torch\n"
        "c = pl.Checkpointer(f'ckpt{pl.rank()}')\n"
        "c.restore({'t': torch.zeros(3)})\n")
    job.start(["--standalone", "--nproc-per-node", "2", "--max-restarts", "0"], [str(script)])
    assert job.wait() == 1
    assert "ranks disagree about their checkpoints" in job.stderr


def test_a_script_alone_keeps_its_checkpoints(tmp_path: Path) -> None:
    env = {**os.environ, "PACELINE_RUNTIME_DIR": str(tmp_path / "rt")}
    env.pop("PACELINE_CHECKPOINT_SOCKET", None)
    python = Path(binary()).parent / "python"
    if not python.exists():
        python = Path(shutil.which("python3") or "python3")
    command = [str(python), str(SCRIPTS / "flash.py"), "--checkpoint", str(tmp_path / "ckpt"),
               "--out", str(tmp_path / "out"), "--steps"]
    # It stands still at 150, so that it never gets as far as the second one, 200.
    first = subprocess.Popen([*command, "200", "--hold", "150"], env=env)
    mark = tmp_path / "out" / "g0-r0"  # no launcher, no generation
    try:
        eventually(lambda: mark.exists() and int(mark.read_text() or 0) > 30, "it trains")
    finally:
        first.kill()
        first.wait()
    subprocess.run([*command, "200"], env=env, check=True, timeout=100)
    lines = (tmp_path / "out" / "restored-0").read_text().splitlines()
    assert int(lines[1].split()[1]) > 30 and "from memory" in lines[1]
    assert float((tmp_path / "out" / "final-0").read_text()) == 200.0


def test_when_all_are_damaged_the_script_is_told(job: Job, make_job) -> None:
    start(job, ["--standalone"], "--every", "1h", steps=30)
    assert job.wait() == 0, job.stderr
    (only,) = stored(job)
    victim = job.directory / "ckpt" / str(only["name"]) / "shard-00000.safetensors"
    with victim.open("r+b") as file:
        file.truncate(5000)
    second = make_job("second")
    start(second, ["--standalone"], steps=60)
    assert second.wait() == 1
    assert "every checkpoint is damaged" in second.stderr
    assert not (second.state / "final-0").exists(), "nothing began anew"


@pytest.mark.parametrize(("first", "second"), [(4, 2), (2, 3), (3, 3)])
def test_a_sharded_model_goes_on_in_a_world_of_another_size(
    job: Job, make_job, first: int, second: int
) -> None:
    import torch

    def run(one: Job, ranks: int, steps: int, out: str) -> dict[str, object]:
        script = [str(SCRIPTS / "sharded.py"), "--checkpoint", str(job.directory / "ckpt"),
                  "--steps", str(steps), "--out", str(job.directory / f"{out}.pt")]
        one.be_patient().start(["--standalone", "--nproc-per-node", str(ranks)], script)
        assert one.wait() == 0, one.stderr
        return torch.load(job.directory / f"{out}.pt", weights_only=True)

    whole = run(job, first, 6, "whole")
    # Nothing is left to do: what is restored is what was saved, bit for bit.
    again = run(make_job("again"), second, 6, "again")
    assert again["start"] == 6, again["why"]
    assert set(again["tensors"]) == set(whole["tensors"])
    for key, value in whole["tensors"].items():
        assert torch.equal(value, again["tensors"][key]), key
    further = run(make_job("further"), first, 9, "further")
    assert further["start"] == 6 and verify(job).returncode == 0


def test_whoever_waits_for_a_step_that_a_rank_left_out_is_told(job: Job) -> None:
    """Rank 1 ends after step 18; step 19, which rank 0 waits for, it has not saved.

    Rank 0 is told at once, so rank 1 may still be at its end, and step 18 on its way to storage.
    """
    flags = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "1", "--max-restarts", "0"]
    start(job, flags, "--cut", "--lazy", "1", steps=20)
    assert job.wait() != 0
    assert "step 19 is not in storage" in job.stderr
    told = (
        r"rank 1 has (ended|nothing more to save), its last save is step 18; "
        r"(step \d+|nothing of this job) is in storage"
    )
    assert re.search(told, job.stderr), job.stderr
    assert job.events("checkpoint_committed")[-1]["step"] == 18
    assert verify(job).returncode == 0


def test_flags_go_over_what_the_script_asks(job: Job) -> None:
    flags = ["--standalone", "--nproc-per-node", "2", "--ckpt-every", "50", "--ckpt-keep", "1"]
    start(job, flags, "--every", "40", "--cut", steps=100_000)
    committed, _ = ended_after_commits(job, 3)
    assert all(step >= 50 * count for count, step in enumerate(committed[:-1], start=1)), (
        f"not the script's 40: {committed}")
    assert len(stored(job)) == 1, "not the script's 2"


@pytest.mark.parametrize("flag", ["--ckpt-every=5parsecs", "--ckpt-every=0", "--ckpt-keep=0"])
def test_flags_that_make_no_sense_are_refused_before_anything_starts(flag: str) -> None:
    done = subprocess.run([str(binary()), "run", "--standalone", flag, "x.py"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "error[PL-E003]" in done.stderr, done.stderr
