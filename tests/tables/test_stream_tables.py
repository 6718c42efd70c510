"""A live stream trains tables on servers; workers and servers die; each record counts once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pyarrow
import pyarrow.parquet
import pytest
from count_stream import BY_REST, OF_ALL, WAKE
from job import Job, eventually
from paceline.serving import Reader
from safetensors.torch import load_file
from test_table_servers import LONG, kill, running, snapshots, tasks_of

WORKER = Path(__file__).parent / "count_stream.py"
REFUSED = 200  # of these records one is refused


class Files:
    """A folder that gets Parquet files of numbers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.written = folder, 0
        self.url = f"files://{folder}/*.parquet"

    def write(self, numbers: range) -> None:
        path = self.folder / f"{self.written:05}.parquet"
        hidden = path.with_name(f".{path.name}")
        pyarrow.parquet.write_table(pyarrow.table({"n": list(numbers)}), hidden)
        hidden.rename(path)
        self.written += 1


class Topic:
    """A topic with four partitions, of librdkafka's mock cluster in this process."""

    def __init__(self) -> None:
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self.producer.list_topics(timeout=20).brokers.values()
        self.url = f"kafka://{broker.host}:{broker.port}/records"

    def write(self, numbers: range) -> None:
        for number in numbers:
            self.producer.produce("records", str(number).encode(), partition=number % 4)
        assert self.producer.flush(60) == 0


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "records")


def begin(job: Job, files: Files | Topic, *args: str, workers: int = 2) -> None:
    job.be_patient().start(
        ["--workers", str(workers), "--ps", "2", "--tables", str(job.directory / "tables"),
         "--max-restarts", "100"],
        [str(WORKER), "--url", files.url, "--end", str(job.state / "end"), *args])


def until_done(job: Job, count: int) -> None:
    def ask() -> bool:
        found = job.command("data", "show", "records", "--json", "--job", str(job.run_dir))
        return found.returncode == 0 and json.loads(found.stdout)["done"] >= count
    eventually(ask, f"{count} records are done", job=job)


@contextmanager
def waking(files: Files | Topic) -> Iterator[None]:
    """A worker looks after each batch whether it should end, so records come until all have."""
    over = threading.Event()

    def wake() -> None:
        for number in range(WAKE, WAKE + 10**6, 100):
            if over.wait(0.2):
                return
            files.write(range(number, number + 40))

    thread = threading.Thread(target=wake)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def end(job: Job, files: Files | Topic) -> dict[int, float]:
    """Lets the job end. Returns the rows of its tables."""
    (job.state / "end").touch()
    with waking(files):
        assert job.wait() == 0, job.stderr
    out = job.directory / "counts.safetensors"
    done = job.command("tables", "export", "counts", str(job.directory / "tables"), "-o", str(out))
    assert done.returncode == 0, done.stderr
    found = load_file(out)
    return dict(zip(found["keys"].tolist(), found["rows"].flatten().tolist(), strict=True))


def expect_counts(rows: dict[int, float], count: int) -> None:
    trained = [n for n in range(count) if n % REFUSED != REFUSED - 1]
    wrong = {n: rows.get(n, 0) for n in trained if rows.get(n) != 1}
    assert not wrong, f"{len(wrong)} records count otherwise than once: {list(wrong.items())[:9]}"
    assert not [n for n in range(count) if n not in set(trained) and n in rows]
    assert rows[OF_ALL] == len(trained)
    for rest in range(7):
        assert rows[BY_REST + rest] == sum(n % 7 == rest for n in trained)


def test_a_killed_worker_and_a_killed_server_leave_each_record_once(
    job: Job, files: Files
) -> None:
    for number in range(6):
        files.write(range(number * 100, number * 100 + 100))
    begin(job, files, "--delay", "0.01", "--serve", str(job.directory / "serve"))
    until_done(job, 100)
    kill(job, "worker-1")
    eventually(lambda: snapshots(job, 1) > 0, "ps-1 has a snapshot", job=job)
    kill(job, "ps-1")
    for number in range(6, 10):
        files.write(range(number * 100, number * 100 + 100))
    until_done(job, 1000)

    def is_served() -> bool:
        version = reader.version()
        return version.rows("counts", [OF_ALL])[0, 0] == 995
    with Reader(job.directory / "serve") as reader:
        eventually(is_served, "all records are served while none comes", job=job)
        # Of a version with all rows: the position has caught up, and says no more than the rows.
        eventually(lambda: (reader.version().position or [{}])[0].get("whole") == 10,
                   "the version says where it stands", job=job)
    shown = job.command("serve", "status", str(job.directory / "serve")).stdout
    assert "10 read whole" in shown, shown
    expect_counts(end(job, files), 1000)


def test_partitions_of_a_topic_count_once_over_kills(job: Job) -> None:
    topic = Topic()
    topic.write(range(600))
    begin(job, topic, "--delay", "0.01")
    until_done(job, 100)
    kill(job, "worker-0")
    eventually(lambda: snapshots(job, 0) > 0, "ps-0 has a snapshot", job=job)
    kill(job, "ps-0")
    topic.write(range(600, 1000))
    until_done(job, 1000)
    expect_counts(end(job, topic), 1000)


@LONG
def test_whoever_dies_each_record_counts_once(job: Job, files: Files) -> None:
    chance = random.Random(3)
    begin(job, files, "--delay", "0.005", "--deadline", "2", workers=3)
    written = 0
    for turn in range(30):
        for _ in range(8):
            files.write(range(written, written + 50))
            written += 50
        name = chance.choice(["worker-0", "worker-1", "worker-2", "ps-0", "ps-1"])
        if turn % 5 == 4:
            pid = running(job, name)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 3.0))
            os.kill(pid, signal.SIGCONT)
        else:
            kill(job, name)
        time.sleep(chance.uniform(0.0, 0.5))
    until_done(job, written)
    assert {task["state"] for task in tasks_of(job).values()} == {"running"}
    expect_counts(end(job, files), written)
