"""Workers and table servers are killed and frozen; each sample counts once in every row of it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from job import Job, JsonDict, eventually
from safetensors.torch import load_file
from test_commands import checked

WORKER = Path(__file__).parent / "count_samples.py"
LONG = pytest.mark.skipif(os.environ.get("PACELINE_PS_TESTS") != "1",
                          reason="many kills: `make test-ps`")


def begin(job: Job, samples: int, batch: int, *args: str, workers: int = 2, servers: int = 2,
          flags: tuple[str, ...] = ()) -> None:
    job.be_patient().start(
        ["--workers", str(workers), "--ps", str(servers), "--tables", str(job.directory / "tables"),
         *flags],
        [str(WORKER), "--out", str(job.state / "rows.json"), "--samples", str(samples),
         "--batch", str(batch), *args])


def until_let_go(job: Job, sample: int) -> tuple[str, ...]:
    """Workers pause before this sample, so that a server is not killed after the last one."""
    return "--hold", str(job.state / "go"), "--pause-at", str(sample)


def tasks_of(job: Job) -> dict[str, JsonDict]:
    return {task["name"]: task for task in (job.status() or {}).get("tasks", [])}


def running(job: Job, name: str) -> int:
    """The pid of a task, as soon as it has a process."""
    def ask() -> int | None:
        task = tasks_of(job).get(name, {})
        return task["pid"] if task.get("state") == "running" and task.get("pid") else None
    return eventually(ask, f"{name} runs", job=job)


def table_of(job: Job) -> JsonDict | None:
    done = job.command("tables", "--json", "--job", str(job.run_dir))
    try:
        told = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None
    if told.get("schema") != "paceline.tables/1" or told["silent_servers"]:
        return None
    return told["tables"][0]


def until_rows(job: Job, rows: int) -> None:
    def ask() -> bool:
        table = table_of(job)
        return table is not None and table["rows"] >= rows
    eventually(ask, f"{rows} rows are on the servers", job=job)


def kill(job: Job, name: str) -> None:
    """Kills the task, and waits for its next process."""
    pid = running(job, name)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: running(job, name) != pid, f"{name} has another process", job=job)


def snapshots(job: Job, server: int) -> int:
    return len(list((job.directory / "tables").glob(f"ps-{server}-of-*/*.tables")))


def expect_counts(job: Job, samples: int) -> None:
    rows = {int(key): value for key, value in
            json.loads((job.state / "rows.json").read_text()).items()}
    wrong = {sample: rows.get(sample, 0) for sample in range(samples) if rows.get(sample) != 1}
    assert not wrong, f"{len(wrong)} samples count otherwise than once: {list(wrong.items())[:9]}"
    assert rows[10**7] == samples
    for rest in range(7):
        assert rows[10**6 + rest] == len(range(rest, samples, 7))


def test_a_killed_worker_and_a_killed_server_leave_each_sample_once(job: Job) -> None:
    begin(job, 1_500, 10, *until_let_go(job, 1_200))
    until_rows(job, 300)
    kill(job, "worker-1")
    eventually(lambda: snapshots(job, 1) > 0, "ps-1 has a snapshot", job=job)
    kill(job, "ps-1")
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 1_500)
    ended = {name: task["state"] for name, task in tasks_of(job).items()}
    assert ended == {"worker-0": "done", "worker-1": "done", "ps-0": "ended", "ps-1": "ended"}


def test_tables_and_tasks_show_the_servers(job: Job) -> None:
    begin(job, 200, 10, "--hold", str(job.state / "go"))
    until_rows(job, 208)
    told = checked(job.command("tables", "--json", "--job", str(job.run_dir)).stdout)
    assert told["tables"][0]["name"] == "counts"
    assert told["tables"][0]["rows"] == 208
    assert told["tables"][0]["refused"] == 0
    shown = job.command("tables", "--job", str(job.run_dir)).stdout
    assert shown.splitlines()[1].split()[:4] == ["counts", "1", "sgd", "208"]
    told = checked(job.command("tasks", "--json", "--job", str(job.run_dir)).stdout)
    assert [task["name"] for task in told["tasks"]] == ["worker-0", "worker-1", "ps-0", "ps-1"]
    status = job.command("status", "--job", str(job.run_dir)).stdout
    assert "worker-0, worker-1, ps-0, ps-1" in status, status
    refused = job.command("scale", "--job", str(job.run_dir))
    assert refused.returncode == 2 and "paceline tasks scale" in refused.stderr, refused
    servers = [task for task in told["tasks"] if task["name"].startswith("ps")]
    assert sum(server["rows"] for server in servers) == 208
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, 200)
    file = job.directory / "counts.safetensors"
    told = checked(job.command("tables", "export", "counts", str(job.directory / "tables"),
                               "-o", str(file), "--json").stdout)
    assert (told["rows"], told["dim"]) == (208, 1)
    exported = load_file(file)
    rows = dict(zip(exported["keys"].tolist(), exported["rows"].flatten().tolist(), strict=True))
    assert rows == {int(key): value for key, value in
                    json.loads((job.state / "rows.json").read_text()).items()}
    file = job.directory / "counts.parquet"
    done = job.command("tables", "export", "counts", str(job.directory / "tables"), "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert "208 rows of 1 floats" in done.stdout
    columns = pyarrow.parquet.read_table(file)
    assert columns["key"].to_pylist() == exported["keys"].tolist()
    assert columns["row"].to_pylist() == exported["rows"].tolist()
    assert [path.name for path in job.directory.glob("*counts.parquet*")] == ["counts.parquet"]
    none = job.command("tables", "export", "ads", str(job.directory / "tables"), "-o", str(file))
    assert none.returncode != 0
    assert "PL-E211" in none.stderr


def test_a_server_that_is_lost_after_the_last_sample_fails_the_job(job: Job) -> None:
    """Without a worker that could repeat them, updates since the snapshot are lost."""
    begin(job, 400, 10, "--hold", str(job.state / "go"), servers=1)
    until_rows(job, 408)
    eventually(lambda: snapshots(job, 0) > 0, "ps-0 has a snapshot", job=job)
    for file in (job.directory / "tables").glob("*/*.tables"):
        file.unlink()  # as if it had died before
    os.kill(running(job, "ps-0"), signal.SIGSTOP)  # it writes no other one
    os.kill(running(job, "ps-0"), signal.SIGKILL)
    job.let_go()
    assert job.wait() == 1, job.stderr
    assert "ps-0" in job.stderr, job.stderr
    assert "0-399" in job.stderr, job.stderr


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_new_run_refuses_a_part_of_the_rows(job: Job, tmp_path: Path, is_gone: bool) -> None:
    begin(job, 200, 10)
    assert job.wait() == 0, job.stderr
    tables = job.directory / "tables"
    for path in tables.glob("ps-1-of-2/*.tables"):
        if is_gone:
            path.unlink()
            continue
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:])
    exported = job.command("tables", "export", "counts", str(tables), "-o", str(tmp_path / "rows"),
                           "--json")
    assert exported.returncode == 5, exported.stderr
    (note, *_) = json.loads(exported.stdout)["notes"]
    assert ("no snapshot in" if is_gone else "is damaged") in note, note
    again = Job(tmp_path / "again").be_patient()
    again.start(["--workers", "2", "--ps", "2", "--tables", str(tables)],
                [str(WORKER), "--out", str(tmp_path / "rows.json"), "--samples", "200",
                 "--batch", "10"])
    assert again.wait() == 1
    assert "PL-E212" in again.stderr, again.stderr


def test_what_the_tables_cannot_be_is_refused_in_four_parts(job: Job) -> None:
    cases = {
        ("--workers", "2", "--tables", "t"): "PL-E140",
        ("--ps", "2", "--tables", "t"): "PL-E140",
        ("--tf", "--workers", "2", "--ps", "1", "--tables", "t"): "PL-E140",
        ("--workers", "2", "--ps", "1"): "PL-E140",
        ("--workers", "2", "--ps", "1", "--tables", "s3://b/t"): "PL-E205",
    }
    for flags, code in cases.items():
        done = job.command("run", *flags, str(WORKER))
        assert done.returncode == 2, (flags, done.stderr)
        assert code in done.stderr, (flags, done.stderr)


@LONG
def test_workers_and_servers_are_killed_again_and_again(job: Job) -> None:
    samples = 24_000
    begin(job, samples, 10, "--delay", "0.01", *until_let_go(job, samples - 100), workers=3,
          servers=2, flags=("--max-restarts", "100"))
    until_rows(job, 100)
    for turn in range(6):
        for name in ("worker-0", "ps-0", "worker-2", "ps-1"):
            kill(job, name)
            time.sleep(0.3 * (turn % 3))
    job.let_go()
    assert job.wait() == 0, job.stderr
    expect_counts(job, samples)


@LONG
@pytest.mark.parametrize("name", ["worker-1", "ps-1"])
def test_a_frozen_task_comes_back_late(job: Job, name: str) -> None:
    """A frozen worker's leases run out, and its pushes arrive after others did its batches."""
    begin(job, 6_000, 10, "--delay", "0.005", "--deadline-ms", "500")
    until_rows(job, 200)
    for _ in range(4):
        if tasks_of(job)[name]["state"] != "running":
            break
        pid = running(job, name)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
    assert job.wait() == 0, job.stderr
    expect_counts(job, 6_000)


@LONG
def test_the_job_is_stopped_and_goes_on_with_its_tables(job: Job) -> None:
    begin(job, 4_000, 10, "--delay", "0.005")
    until_rows(job, 500)
    assert job.launcher is not None
    job.launcher.send_signal(signal.SIGTERM)
    assert job.wait() == 143, job.stderr
    job.start(["--resume"], [])
    assert job.wait() == 0, job.stderr
    expect_counts(job, 4_000)
