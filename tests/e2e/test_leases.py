"""Leased data under the real binary: whoever dies or freezes, each sample counts exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
from contextlib import closing, suppress

import pytest
from job import SCRIPTS, TOGETHER, Job, eventually

SAMPLES = 2000
NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "2", "--max-restarts", "30"]


def start(job: Job, flags: list[str], *args: str) -> Job:
    return job.start(flags, [str(SCRIPTS / "leasing.py"), "--out", str(job.state), *args])


def acks(job: Job, data_set: int = 1) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(f"file:{job.run_dir}/data.db?mode=ro", uri=True)) as db:
        return db.execute(
            "SELECT first, end FROM facts WHERE kind = 3 AND data_set = ?", (data_set,)
        ).fetchall()


def check_counted_once(job: Job, samples: int = SAMPLES, but: tuple[int, ...] = ()) -> None:
    """By the acknowledgements that are durable."""
    counts = [0] * samples
    for first, end in acks(job):
        for ordinal in range(first, end):
            counts[ordinal] += 1
    wrong = {o: n for o, n in enumerate(counts) if n != 1}
    assert len(wrong) == len(but) and set(wrong.values()) <= {0}, wrong


def worked_on(job: Job) -> list[int]:
    return [int(line) for path in job.state.glob("work-*") for line in path.read_text().split()]


def done(job: Job) -> int:
    found = job.command("data", "ls", "--json", "--job", str(job.run_dir))
    if found.returncode != 0:
        return 0
    return int(json.loads(found.stdout)["data_sets"][0]["done"])


def pids(job: Job) -> set[int]:
    return {rank["pid"] for rank in job.ranks().values()}


def until_done(job: Job, count: int) -> None:
    eventually(lambda: done(job) >= count, f"{count} samples are done", job=job)


def until_others_go_on(job: Job, count: int) -> None:
    """Somebody is frozen; so many more samples, or all that there are."""
    until_done(job, min(done(job) + count, SAMPLES))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_faults_at_random_leave_every_sample_counted_once(job: Job, seed: int) -> None:
    chance = random.Random(seed)
    # An agent that dies right after the last of its ranks was killed is a node that died.
    # A healthy worker's pause is shorter than the deadline: three such ends look like a bad sample.
    start(job, [*NODES, "--replace-nodes", "on"], "--deadline", "8")
    for turn in range(5):
        until_done(job, turn * 250 + 100)
        ranks = job.ranks()
        if not ranks:
            continue
        rank = ranks[chance.choice(sorted(ranks))]
        victim = chance.choice(["rank", "agent", "master", "frozen"])
        try:
            if victim == "rank":
                os.kill(rank["pid"], signal.SIGKILL)
            elif victim == "agent":
                os.kill(job.agent_pid(rank["node"]), signal.SIGKILL)
            elif victim == "master":
                os.kill(job.card["master"]["pid"], signal.SIGKILL)
            else:
                os.kill(rank["pid"], signal.SIGSTOP)
                until_others_go_on(job, 100)
                os.kill(rank["pid"], signal.SIGCONT)
        except ProcessLookupError:
            continue
    assert job.wait() == 0, job.stderr
    check_counted_once(job)
    assert set(worked_on(job)) == set(range(SAMPLES))


def test_a_dead_workers_samples_and_no_others_are_repeated(job: Job) -> None:
    # Two workers have a sample in hand that is not done, and no acknowledgement is on its way.
    job.be_patient()
    start(job, [*NODES, "--local-nodes", "1"], "--hold", "150", "--deadline", "120")
    until_done(job, 2 * 149)
    before = pids(job)
    os.kill(job.ranks()[1]["pid"], signal.SIGKILL)
    # Let go any sooner, the other worker would have more in hand when it is restarted.
    eventually(lambda: len(pids(job) - before) == 2, "both workers are restarted", job=job)
    job.let_go()
    assert job.wait() == 0, job.stderr
    check_counted_once(job)
    repeated = len(worked_on(job)) - SAMPLES
    assert 0 <= repeated <= 2, repeated


def test_a_frozen_node_gives_its_leases_back_and_does_not_count_later(job: Job) -> None:
    """By the deadline of its leases: the node itself is not lost."""
    job.be_patient().env |= TOGETHER
    start(job, [*NODES, "--nnodes", "1:2"], "--samples", "600", "--pace", "0.004", "--hold", "50",
          "--deadline", "3")
    until_done(job, 4 * 49)
    node = job.until_stepping(4)[3]["node"]
    with job.frozen(node):
        job.let_go()
        until_done(job, 600)  # the others have done what the frozen ones had leased, too
    assert job.wait() == 0, job.stderr
    assert "starting it again" not in job.stderr
    check_counted_once(job, 600)
    assert len(worked_on(job)) >= 600 + 2, "two frozen workers had a sample in hand"


def test_kills_do_not_end_a_job_whose_samples_are_acknowledged(job: Job) -> None:
    """Acknowledged samples are progress, also where no step is told and no checkpoint saved."""
    job.be_patient()
    # Each worker is killed with 29 samples done and one in hand, whenever the test looks.
    start(job, ["--standalone", "--nproc-per-node", "1"], "--without-steps", "--samples", "600",
          "--hold", "30", "--deadline", "120")
    for kill in range(1, 9):
        until_done(job, 29 * kill)
        (rank,) = eventually(lambda: list(job.ranks().values()), "its rank runs", job=job)
        os.kill(rank["pid"], signal.SIGKILL)
    job.let_go()
    assert job.wait() == 0, job.stderr
    check_counted_once(job, 600)
    told = [event["details"].get("evidence", "") for event in job.events("progress_made")]
    assert any("leased samples acknowledged since the last failure" in one for one in told), told


def test_the_budget_does_not_end_the_search_for_a_poisoned_sample(job: Job) -> None:
    """A lone rank dies on it more often than a job may fail without progress."""
    # It is the 18th of the first lease. Later leases are shorter if the machine is slow, and so is
    # the search in them.
    start(job.be_patient(), ["--standalone", "--nproc-per-node", "1"], "--without-steps",
          "--samples", "300", "--lease", "100", "--poison", "123")
    assert job.wait() == 0, job.stderr
    check_counted_once(job, 300, but=(123,))
    assert len(job.events("rank_failed")) > 5


def test_a_poisoned_sample_costs_that_sample(job: Job) -> None:
    start(job, NODES, "--samples", "300", "--lease", "10", "--poison", "123", "--pace", "0.001")
    assert job.wait() == 0, job.stderr
    check_counted_once(job, 300, but=(123,))
    listed = job.command("data", "ls", "--job", str(job.run_dir))
    assert "complete except 1" in listed.stdout, listed.stdout + listed.stderr


def test_a_record_that_cannot_be_read_costs_that_record(job: Job) -> None:
    start(job, NODES, "--samples", "300", "--bad", "123", "--pace", "0.001")
    assert job.wait() == 0, job.stderr
    assert "(0, 123)" in job.stdout
    check_counted_once(job, 300, but=(123,))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_restore_rewinds_the_data_with_the_model(job: Job, seed: int) -> None:
    chance = random.Random(seed)
    samples = 1800
    start(job, [*NODES, "--local-nodes", "1"], "--samples", str(samples),
          "--checkpoint", str(job.directory / "ckpt"), "--hold", "100")
    assert job.launcher is not None
    launcher, kills = job.launcher, 0
    for turn in range(3):
        until_done(job, turn * 100 + 60)
        victim = chance.choice(["rank", "rank", "master"])
        # Between two worlds there is no rank to kill, and a slow machine may look after the end.
        rank = eventually(lambda: launcher.poll() is not None or job.ranks().get(0),
                          "rank 0 is there", job=job)
        if not isinstance(rank, dict):
            break
        pid = job.card["master"]["pid"] if victim == "master" else rank["pid"]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            kills += 1
        job.let_go()
    assert kills > 0
    assert job.wait() == 0, job.stderr
    counts: dict[int, int] = {}
    for path in job.state.glob("counts-*"):
        for line in path.read_text().splitlines():
            sample, count = map(int, line.split())
            counts[sample] = counts.get(sample, 0) + count
    assert counts == dict.fromkeys(range(samples), 1), "the model saw each sample once"


def test_another_run_goes_on_where_the_checkpoint_stands(job: Job, make_job) -> None:
    flags = [*NODES, "--local-nodes", "1"]
    start(job, flags, "--samples", "600", "--checkpoint", str(job.directory / "ckpt"),
          "--every", "30", "--hold", "200")
    stored = job.directory / "ckpt" / "LATEST"
    eventually(stored.exists, "a checkpoint is in storage", job=job)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGTERM)
    assert job.wait() == 143, job.stderr
    second = make_job("second")
    start(second, flags, "--samples", "600", "--checkpoint", str(job.directory / "ckpt"))
    assert second.wait() == 0, second.stderr
    counts: dict[int, int] = {}
    for path in second.state.glob("counts-*"):
        for line in path.read_text().splitlines():
            sample, count = map(int, line.split())
            counts[sample] = counts.get(sample, 0) + count
    assert counts == dict.fromkeys(range(600), 1), "the model saw each sample once"
    assert len(worked_on(second)) < 600, "it did not begin anew"


def test_two_data_sets_do_not_mix_and_a_sample_is_traced(job: Job) -> None:
    start(job.be_patient(), ["--standalone", "--nproc-per-node", "2"], "--samples", "200",
          "--second", "--epochs", "2", "--deadline", "60")
    assert job.wait() == 0, job.stderr
    check_counted_once(job, 400)
    counts = sorted(range_ for range_ in acks(job, 2))
    assert sum(end - first for first, end in counts) == 100
    listed = json.loads(
        job.command("data", "ls", "--json", "--job", str(job.run_dir)).stdout)["data_sets"]
    assert [(one["name"], one["done"], one["is_complete"]) for one in listed] == [
        ("train", 400, True), ("eval", 100, True)]
    traced = job.command("data", "trace", "42", "--data", "train", "--json",
                         "--job", str(job.run_dir))
    passages = json.loads(traced.stdout)["passages"]
    assert [one["epoch"] for one in passages] == [0, 1]
    assert all(one["counts"] for one in passages)
    shown = job.command("data", "show", "eval", "--job", str(job.run_dir))
    assert "100 of 100" in shown.stdout


@pytest.mark.parametrize(("samples", "workers", "bad"), [(201, 0, -1), (201, 2, -1), (202, 2, 50)])
def test_a_loop_with_collectives_ends_at_one_step(
    job: Job, samples: int, workers: int, bad: int
) -> None:
    """No rank waits in the last next() for samples of a rank that waits in a collective."""
    pytest.importorskip("torch")
    script = [str(SCRIPTS / "leasing_together.py"), "--checkpoint", str(job.directory / "ckpt"),
              "--out", str(job.state), "--samples", str(samples), "--workers", str(workers),
              "--bad", str(bad), "--hold", str(job.state / "killed")]
    job.be_patient().start(
        ["--standalone", "--nproc-per-node", "2", "--max-restarts", "20"], script)
    ranks = job.until_stepping(2, beyond=8)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    (job.state / "killed").touch()
    assert job.wait() == 0, job.stderr
    ends = [(job.state / f"end-{rank}").read_text() for rank in (0, 1)]
    assert ends[0] == ends[1], "the same step, and the same sums"
    counts = json.loads("[" + ends[0].partition("[")[2])
    wrong = {i: n for i, n in enumerate(counts) if n != 1}
    assert set(wrong.values()) <= {0} and len(wrong) < 2 + (bad >= 0), wrong
    assert bad < 0 or bad in wrong
