"""Elastic data under the real binary: whatever is killed, every sample counts once an epoch."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal

import pytest
from hosts import Host, needs_hosts, until_training
from hosts import start as start_hosts
from job import SCRIPTS, Job, JsonDict, eventually

pytest.importorskip("torch", reason="the counting model is torch's here")

from paceline.data import ElasticDataset, ElasticLoader

SAMPLES, BATCH = 1003, 24
NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2"]


def script_of(job: Job, *args: str, epochs: int) -> list[str]:
    return [str(SCRIPTS / "counting.py"), "--checkpoint", str(job.directory / "ckpt"),
            "--out", str(job.state), "--epochs", str(epochs), "--samples", str(SAMPLES),
            "--batch", str(BATCH), *args]


def start(job: Job, flags: list[str], *args: str, epochs: int) -> Job:
    return job.start(flags, script_of(job, *args, epochs=epochs))


def expected_steps(epochs: int) -> list[str]:
    """The samples of each step, hashed, as one process without any fault reads them."""
    data = ElasticDataset(range(SAMPLES), seed=7)
    loader = ElasticLoader(data, global_batch=BATCH, rank=0, world_size=1)
    found = []
    for _ in range(epochs):
        for batch in loader:
            text = " ".join(map(str, sorted(batch)))
            found.append(hashlib.sha256(text.encode()).hexdigest()[:16])
        found.append("")  # the evaluation at the end of the epoch is a step without samples
    return found


def check_exact(job: Job, epochs: int) -> None:
    told = json.loads((job.state / "counts.json").read_text())
    wrong = {key: n for key, n in enumerate(told["counts"]) if n != epochs}
    assert not wrong, f"samples lost or repeated: {wrong}"
    expected = expected_steps(epochs)
    assert told["steps"] == len(expected)
    lines = [line.split() for line in (job.state / "steps").read_text().splitlines()]
    done = {int(step): digest for _, step, digest in lines}
    assert done == {i: digest for i, digest in enumerate(expected) if digest}
    by_step: dict[int, set[str]] = {}
    for _, step, digest in lines:
        by_step.setdefault(int(step), set()).add(digest)
    assert all(len(one) == 1 for one in by_step.values()), "redone steps read the same samples"


def worlds(job: Job) -> list[int]:
    lines = (job.state / "restored-0").read_text().splitlines()
    return [int(line.split()[2]) for line in lines]


def kill_rank(job: Job, rank: JsonDict) -> None:
    """Until the job has noticed: before that its status has the ranks of the world before."""
    os.kill(rank["pid"], signal.SIGKILL)

    def is_noticed() -> bool:
        pids = [one["pid"] for one in job.ranks().values()]
        return bool(pids) and rank["pid"] not in pids
    eventually(is_noticed, "the job has noticed that the rank is gone", job=job)


def kill_agent(job: Job, node: str) -> None:
    """Until there is another agent."""
    former = job.agent_pid(node)
    os.kill(former, signal.SIGKILL)
    eventually(lambda: job.agent_pid(node) != former, "there is another agent", job=job)


def kill_master(job: Job) -> None:
    """Until there is another master."""
    former = job.card["master"]["pid"]
    os.kill(former, signal.SIGKILL)
    eventually(lambda: job.card["master"]["pid"] != former, "there is another master", job=job)


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_random_leave_every_count_exact(job: Job, seed: int) -> None:
    chance = random.Random(seed)
    flags = [*NODES, "--max-restarts", "20"]
    start(job.be_patient(), flags, "--workers", str(seed), "--hold", "200", epochs=5)
    beyond = 8
    for _ in range(4):
        # Each kill waits until it is noticed, because a job that holds makes no further step.
        ranks = job.until_stepping(4, beyond=beyond)
        victim = chance.choice(["rank", "rank", "agent", "master"])
        if victim == "rank":
            kill_rank(job, ranks[chance.randrange(4)])
        elif victim == "agent":
            kill_agent(job, ranks[chance.randrange(4)]["node"])
        else:
            kill_master(job)
        newest = max((rank["step"] or 0) for rank in ranks.values())
        beyond = min(newest + chance.randrange(10, 30), 199)  # the newest one where it holds
    job.let_go()
    assert job.wait() == 0, job.stderr
    check_exact(job, 5)


def test_a_world_that_shrinks_and_grows_reads_the_same_samples(job: Job) -> None:
    flags = [*NODES, "--nnodes", "1:2", "--replace-nodes", "on", "--grow", "now"]
    # However long the node needs to come back, it finds work: two ranks alone stop at step 300.
    start(job, flags, "--pace", "0.02", "--meet", "4:300", "--hold", "500", epochs=12)
    before = job.until_stepping(4, beyond=10)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGSTOP)  # it starts no node before two ranks train
    job.kill_node(before[3]["node"])
    job.until_event("node_lost")
    job.until_stepping(2)
    job.launcher.send_signal(signal.SIGCONT)
    job.until_stepping(4, beyond=min((before[0]["step"] or 0) + 15, 499))
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert {2, 4} <= set(worlds(job)), "it trained with two ranks and with four"
    check_exact(job, 12)


def test_a_node_that_freezes_counts_nothing_when_it_thaws(job: Job) -> None:
    start(job, [*NODES, "--spares", "1"], "--pace", "0.02", "--hold", "330", epochs=8)
    beyond = 10
    for lost in (1, 2):
        ranks = job.until_stepping(4, beyond=beyond)
        with job.frozen(ranks[3]["node"]):
            job.until_event("node_lost", lost)
            ranks = job.until_stepping(4, beyond=min(ranks[0]["step"] + 10, 329))
        beyond = min(ranks[0]["step"] + 30, 329)
    job.let_go()
    assert job.wait() == 0, job.stderr
    check_exact(job, 8)


@needs_hosts
def test_a_host_that_is_cut_off_loses_and_repeats_nothing(hosts: list[Host]) -> None:
    """Cut off both ways, then only unheard: what its rank still does does not count."""
    first, _, third = hosts
    script = script_of(first.job, "--pace", "0.02", "--meet", "3:300", "--hold", "500", epochs=12)
    start_hosts(hosts, "--nnodes", "2:3", "--grow", "now", script=script)
    beyond = 10
    cuts = [(lambda: third.link("down"), lambda: third.link("up")), (third.mute, third.unmute)]
    for lost, (cut, mend) in enumerate(cuts, start=1):
        ranks = until_training(first, 3, beyond=beyond)
        cut()
        first.job.until_event("node_lost", lost)
        until_training(first, 2)
        mend()
        beyond = min(ranks[first.name]["step"] + 20, 499)  # the newest one where it holds
    until_training(first, 3)
    first.job.let_go()
    assert first.job.wait() == 0, first.job.stderr
    check_exact(first.job, 12)
    assert {2, 3} <= set(worlds(first.job))


def test_shares_by_speed_leave_every_count_exact_over_kills(job: Job) -> None:
    """A slowed rank gets less of each step, also after restarts, and nothing else changes."""
    flags = [*NODES, "--max-restarts", "20"]
    start(job.be_patient(), flags, "--slow", "2", "--workers", "1", "--hold", "200", epochs=5)
    beyond = 30
    for victim in (0, 2, 1):
        ranks = job.until_stepping(4, beyond=beyond)
        kill_rank(job, ranks[victim])
        beyond = min(max((rank["step"] or 0) for rank in ranks.values()) + 25, 199)
    job.let_go()
    assert job.wait() == 0, job.stderr
    check_exact(job, 5)
    shares = json.loads((job.state / "counts.json").read_text())["shares"]
    assert sum(shares) == BATCH
    assert shares[2] == min(shares) < BATCH // 4 < max(shares), shares


def test_an_older_checkpoint_rewinds_the_data(job: Job, make_job) -> None:
    start(job.be_patient(), ["--standalone", "--nproc-per-node", "2"],
          "--every", "1h", "--store", "20", "--store", "40", epochs=2)
    assert job.wait() == 0, job.stderr
    check_exact(job, 2)
    listed = job.command("ckpt", "ls", "--json", str(job.directory / "ckpt"))
    names = [one["name"] for one in json.loads(listed.stdout)["checkpoints"]]
    assert len(names) == 3
    for name in names[:2]:  # the newest
        removed = job.command("ckpt", "rm", str(job.directory / "ckpt" / name))
        assert removed.returncode == 0, removed.stderr
    second = make_job("second")
    start(second.be_patient(), ["--standalone", "--nproc-per-node", "3"], epochs=4)
    assert second.wait() == 0, second.stderr
    assert worlds(second) == [3]
    told = json.loads((second.state / "counts.json").read_text())
    assert set(told["counts"]) == {4}, "both runs together read each sample once an epoch"


def test_a_trace_names_step_and_rank(job: Job) -> None:
    start(job.be_patient(), ["--standalone", "--nproc-per-node", "2"],
          "--every", "1h", "--store", "10", "--store", "30", epochs=1)
    assert job.wait() == 0, job.stderr
    ranks = [ElasticLoader(ElasticDataset(range(SAMPLES), seed=7), global_batch=BATCH, rank=rank,
                           world_size=2) for rank in (0, 1)]
    read = {sample: (step, rank) for rank, loader in enumerate(ranks)
            for step, batch in enumerate(loader) for sample in batch}
    named = 0
    for sample in range(0, SAMPLES, 20):
        told = job.command("data", "trace", str(sample), "--data", "train", "--json",
                           "--checkpoint", str(job.directory / "ckpt"))
        (one,) = json.loads(told.stdout)["readings"]
        step, rank = read[sample]
        assert (one["epoch"], one["step_of_epoch"]) == (0, step)
        assert one["rank"] in (rank, None)
        named += one["rank"] is not None
    assert named > 0, "some stand between two checkpoints that are still there"


def test_data_that_changed_is_refused_before_a_step(job: Job, make_job) -> None:
    start(job, ["--standalone"], epochs=1)
    assert job.wait() == 0, job.stderr
    second = make_job("second")
    start(second, ["--standalone"], "--batch", "30", epochs=2)
    assert second.wait() == 0, "steps of another size are no other data"
    third = make_job("third")
    start(third, ["--standalone", "--max-restarts", "0"], "--shift", "1", epochs=3)
    assert third.wait() != 0
    assert "the data changed since the checkpoint was saved" in third.stderr
    assert not (third.state / "steps").exists()
