"""PyTorch scripts on table servers, whose workers and servers are killed."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from job import ROOT, Job, eventually
from test_table_servers import LONG, kill, running, snapshots, until_rows

COUNTING = Path(__file__).parent / "count_with_torch.py"


def begin(job: Job, script: Path, *args: str, workers: int = 2, servers: int = 2) -> None:
    job.be_patient().start(
        ["--workers", str(workers), "--ps", str(servers), "--tables", str(job.directory / "tables"),
         "--max-restarts", "100"],
        [str(script), *args])


def expect_counts(job: Job, samples: int) -> None:
    told = json.loads((job.state / "counts.json").read_text())
    rows = {int(key): row for key, row in told["rows"].items()}
    wrong = [sample for sample in range(samples) if rows.get(sample) != [1.0, 1.0]]
    assert not wrong, f"{len(wrong)} samples count otherwise than once: {wrong[:9]}"
    assert rows[-1] == [samples, samples], "a negative key is a key as others"
    for rest in range(7):
        count = len(range(rest, samples, 7))
        assert rows[10**6 + rest] == [count, count]
    assert told["bias"] == [samples + 0.25], "each batch once in each value"


def test_rows_and_dense_parameters_count_each_sample_once(job: Job) -> None:
    begin(job, COUNTING, "--out", str(job.state / "counts.json"), "--samples", "1000",
          "--hold", str(job.state / "go"), "--pause-at", "50")
    until_rows(job, 400)
    kill(job, "worker-0")
    eventually(lambda: snapshots(job, 0) > 0, "ps-0 has a snapshot", job=job)
    kill(job, "ps-0")
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 1_000)


@LONG
def test_rows_and_dense_parameters_outlive_many_kills(job: Job) -> None:
    begin(job, COUNTING, "--out", str(job.state / "counts.json"), "--samples", "6000",
          "--delay", "0.02", "--hold", str(job.state / "go"), "--pause-at", "200", workers=3)
    until_rows(job, 100)
    for name in ("ps-1", "worker-2", "ps-0", "ps-1", "worker-0", "ps-0", "worker-1", "ps-1"):
        kill(job, name)
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 6_000)


def click_model(job: Job, *, kills: bool) -> float:
    begin(job, ROOT / "examples" / "click_model.py", "--samples", "40000", "--epochs", "4",
          "--batch", "256")
    if kills:
        until_rows(job, 1_000)
        kill(job, "worker-1")
        kill(job, "ps-1")
    assert job.wait() == 0, job.stderr
    found = [float(auc) for auc in re.findall(r"after: AUC (\S+)", job.stdout)]
    assert found, job.stdout  # equal lines of two workers are shown once
    return max(found)


@LONG
def test_the_click_model_learns_as_well_with_kills(tmp_path: Path) -> None:
    aucs: list[float] = []
    for kills in (False, True):
        (tmp_path / str(kills)).mkdir()
        job = Job(tmp_path / str(kills))
        try:
            aucs.append(click_model(job, kills=kills))
        finally:
            job.end()
    assert min(aucs) > 0.7, aucs
    assert aucs[1] == pytest.approx(aucs[0], abs=0.03)


def test_a_directory_of_tables_belongs_to_one_job_at_a_time(job: Job) -> None:
    """Not even a frozen server loses it to another job."""
    begin(job, COUNTING, "--out", str(job.state / "counts.json"), "--samples", "400",
          "--hold", str(job.state / "go"), servers=1)
    until_rows(job, 400)
    pid = running(job, "ps-0")
    lock = job.directory / "tables" / "server-0.lock"
    os.kill(pid, signal.SIGSTOP)
    other = job.command("server", "--socket", str(job.directory / "s"), "--dir", str(lock.parent),
                        "--job-id", "another", "--number", "0", "--servers", "1")
    os.kill(pid, signal.SIGCONT)
    assert other.returncode == 1
    assert "PL-E208" in other.stderr
    assert f"the job {lock.read_text().split()[0]};" in other.stderr
    assert "one job at a time" in other.stderr
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 400)
