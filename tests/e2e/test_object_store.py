"""Checkpoints in an object store, under the real binary and a real S3 server in this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually, lives

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

from object_store import BUCKET, ObjectStore

PLACE = f"s3://{BUCKET}/runs/gpt"
RANKS = ["--standalone", "--nproc-per-node", "2"]


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture
def make_s3_job(tmp_path: Path, store: ObjectStore) -> Callable[[str], Job]:
    # A world more would have another generation, and go on from memory.
    return lambda name: Job(tmp_path, name, env=store.environment()).be_patient()


def start(job: Job, *args: str, steps: int) -> Job:
    return job.start(RANKS, [str(SCRIPTS / "flash.py"), "--checkpoint", PLACE, "--out",
                             str(job.state), "--steps", str(steps), "--cut", *args])


def finished(job: Job, *, steps: int) -> list[dict[str, object]]:
    """Runs it to its end; what it left in storage, newest first."""
    start(job, "--every", "20", steps=steps)
    assert job.wait() == 0, job.stderr
    listed = job.command("ckpt", "ls", "--json", PLACE)
    return json.loads(listed.stdout)["checkpoints"]


def begin_and_lose_storage(make_s3_job: Callable[[str], Job], store: ObjectStore) -> Job:
    """A job that has one checkpoint in storage, and storage does not answer any more."""
    job = make_s3_job("run")
    start(job, "--every", "10", steps=100_000)
    job.until_event("checkpoint_committed")
    store.stop()
    return job


def restored(job: Job, rank: int) -> list[tuple[int, str]]:
    lines = (job.state / f"restored-{rank}").read_text().splitlines()
    return [(int(line.split(" ", 2)[1]), line.split(" ", 2)[2]) for line in lines]


def agent_log(job: Job) -> str:
    return (job.run_dir / "logs" / "node0" / "agent.log").read_text()


def tier_of(job: Job) -> Path:
    return job.run_dir / "nodes" / "node0" / "tier"


def test_checkpoints_live_in_an_object_store(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    first = make_s3_job("first")
    found = finished(first, steps=70)
    assert found[0]["step"] == 69
    assert len(found) == 2, "keep=2"
    assert first.command("ckpt", "verify", PLACE).returncode == 0
    assert not tier_of(first).exists(), "the local disk is given back"
    # Another job on another host: nothing of it is in memory or on a disk here.
    second = make_s3_job("second")
    start(second, steps=90)
    assert second.wait() == 0, second.stderr
    for rank in range(2):
        step, why = restored(second, rank)[-1]
        assert step == 70 and "step-69-g1" in why
        assert float((second.state / f"final-{rank}").read_text()) == 90.0
    name = json.loads(first.command("ckpt", "ls", "--json", PLACE).stdout)["checkpoints"][1]["name"]
    assert first.command("ckpt", "rm", f"{PLACE}/{name}").returncode == 0
    assert not [key for key in store.objects() if f"/{name}/" in key]


def test_a_copy_is_read_without_the_store(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    first = make_s3_job("first")
    newest = finished(first, steps=50)[0]["name"]
    here = first.directory / "here"
    done = first.command("ckpt", "copy", "--json", PLACE, str(here))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["to"] == str(here / str(newest))
    assert first.command("ckpt", "verify", str(here)).returncode == 0
    assert first.command("ckpt", "diff", PLACE, str(here)).returncode == 0
    # Again: nothing is sent. And back, into an empty place.
    assert json.loads(first.command("ckpt", "copy", "--json", PLACE, str(here)).stdout)[
        "bytes"] == 0
    back = first.command("ckpt", "copy", str(here), PLACE + "/back")
    assert back.returncode == 0, back.stderr
    assert first.command("ckpt", "verify", PLACE + "/back").returncode == 0
    # Another one of that name, or one that is damaged, is refused; both stay as they are.
    other = make_s3_job("other")
    there = other.directory / "there"
    other.start(RANKS, [str(SCRIPTS / "flash.py"), "--checkpoint", str(there), "--out",
                        str(other.state), "--steps", "50", "--cut"])
    assert other.wait() == 0, other.stderr
    assert (there / str(newest)).exists()
    refused = other.command("ckpt", "copy", PLACE, str(there))
    assert refused.returncode == 2 and "PL-E084" in refused.stderr, refused.stderr
    assert other.command("ckpt", "verify", str(there)).returncode == 0
    key = f"runs/gpt/{newest}/shard-00001.safetensors"
    body = bytearray(store.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    body[100_000] ^= 1
    store.client().put_object(Bucket=BUCKET, Key=key, Body=bytes(body))
    refused = other.command("ckpt", "copy", f"{PLACE}/{newest}", str(first.directory / "third"))
    assert refused.returncode == 2 and "PL-E084" in refused.stderr, refused.stderr
    assert not (first.directory / "third" / str(newest) / "MANIFEST.json").exists()


def test_frozen_weights_are_sent_once(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    first = make_s3_job("first")
    start(first, "--every", "20", "--frozen", steps=70)
    assert first.wait() == 0, first.stderr
    found = json.loads(first.command("ckpt", "ls", "--json", PLACE).stdout)["checkpoints"]
    assert len(found) == 2
    for one in found:
        names = [key for key in store.objects() if f"/{one['name']}/" in key]
        assert sum(key.endswith("-frozen.safetensors") for key in names) == 2, names
    assert first.command("ckpt", "verify", PLACE).returncode == 0
    second = make_s3_job("second")
    start(second, "--frozen", steps=90)
    assert second.wait() == 0, second.stderr
    assert restored(second, 1)[-1][0] == 70
    assert first.command("ckpt", "verify", PLACE).returncode == 0


def test_damage_in_an_object_store_is_found_and_the_one_before_is_taken(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    first = make_s3_job("first")
    listed = finished(first, steps=50)
    key = f"runs/gpt/{listed[0]['name']}/shard-00001.safetensors"
    body = bytearray(store.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    body[100_000] ^= 1
    store.client().put_object(Bucket=BUCKET, Key=key, Body=bytes(body))
    found = first.command("ckpt", "verify", PLACE)
    assert found.returncode == 5 and "shard-00001.safetensors" in found.stdout
    second = make_s3_job("second")
    start(second, steps=60)
    assert second.wait() == 0, second.stderr
    damaged = second.events("checkpoint_damaged")[0]
    assert damaged["details"]["checkpoint"] == listed[0]["name"]
    assert restored(second, 0)[-1][0] == int(str(listed[1]["step"])) + 1


def test_a_store_that_is_away_costs_checkpoints_and_never_a_step(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    job = begin_and_lose_storage(make_s3_job, store)
    try:
        job.until_stepping(2, beyond=job.step() + 60)
        eventually(lambda: "shard_written" in agent_log(job) and "Could not connect" in
                   agent_log(job), "the agent says why")
    finally:
        store.start()
    committed = len(job.events("checkpoint_committed"))
    job.until_event("checkpoint_committed", committed + 1)
    job.end()


def test_a_store_that_is_away_when_a_job_begins_is_waited_for_aloud(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    store.stop()
    job = make_s3_job("run")
    try:
        start(job, steps=20)
        eventually(lambda: f"{PLACE} cannot be read now" in job.stderr, "it says so", job=job)
    finally:
        store.start()
    assert job.wait() == 0, job.stderr
    # Once for all ranks, and not with each try.
    assert job.stderr.count("cannot be read now") == 1, job.stderr


def test_a_bucket_that_is_not_there_is_an_error_and_no_empty_one(
    make_s3_job: Callable[[str], Job]
) -> None:
    job = make_s3_job("run")
    job.start([*RANKS, "--max-restarts", "0"],
              [str(SCRIPTS / "flash.py"), "--checkpoint", "s3://no-such-bucket/gpt", "--out",
               str(job.state), "--steps", "20"])
    assert job.wait() != 0
    assert "may read the checkpoints in s3://no-such-bucket/gpt" in job.stderr
    assert "NoSuchBucket" in job.stderr
    assert not (job.state / "restored-0").exists(), "it did not begin anew"


def test_memory_lost_while_storage_was_away_goes_on_from_the_local_disk(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    job = begin_and_lose_storage(make_s3_job, store)
    step = job.step()

    def newest_on_disk() -> int:
        """Of the steps that both ranks have there."""
        found = [{int(path.parent.name.split("-")[1]) for path in
                  tier_of(job).glob(f"step-*/rank-{rank:05}.image.json")} for rank in range(2)]
        return max(set.intersection(*found), default=-1)

    eventually(lambda: newest_on_disk() > step, "a step is on the local disk alone")
    # All at once, as a host that loses its power: launcher, master, agent, ranks, memory.
    assert job.launcher is not None
    pids = [job.launcher.pid, job.card["master"]["pid"], job.agent_pid("node0")]
    pids += [rank["pid"] for rank in job.ranks().values()]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    job.launcher.wait()
    # A process that is killed may still finish the call that it is in, and make a file.
    eventually(lambda: not any(lives(pid) for pid in pids), "all have ended")
    shutil.rmtree(Path(f"/dev/shm/paceline-{os.getuid()}") / job.card["id"])
    on_disk = newest_on_disk()
    store.start()
    job.start(["--resume"], [])
    eventually(lambda: len(restored(job, 1)) >= 2, "it goes on", job=job)
    begun, why = restored(job, 1)[1]
    assert begun > step, "and not from what storage had"
    assert begun <= on_disk + 1
    assert "from its host's disk" in why
    job.end()
