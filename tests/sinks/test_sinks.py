"""Real Ray, Spark and Flink write into a training job, and die at every step of a commit."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from conftest import Program, Receiver
from job import Job, eventually
from test_live_streams import acknowledged, end, kill_one, start, until_done

from paceline.data import LeasedLoader, Stream

KILLED = 128 + signal.SIGKILL


def rows_of(receiver: Receiver, wanted: int) -> Counter[int]:
    """All that is committed now. One more row would be in the last batch, or come soon after."""
    stream = Stream(receiver.url, decode=lambda row: row["click"], secrets=receiver.secrets)
    seen: list[int] = []
    with LeasedLoader(stream, batch=512, wait=0.1) as loader:
        for batch in loader:
            seen += batch
            if len(seen) >= wanted:
                loader.done()  # before the loop ends, or it would give the batch again
                break
        for batch in loader.soon(0.5):
            seen += batch
    return Counter(seen)


def parquet(folder: Path, number: int, values: range) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03}.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"click": list(values)}), path)
    os.utime(path, (number + 1, number + 1))  # Spark reads the oldest file first


@pytest.mark.parametrize("fault", ["write", "before", "after"])
def test_ray_that_is_killed_and_run_again_leaves_one_copy(
    ray_program: Program, receiver: Receiver, fault: str
) -> None:
    words = (receiver.written_to, str(receiver.secrets), "monday", "0", "6000")
    code, text = ray_program.run(*words, fault=fault)
    assert code == (0 if fault == "write" else KILLED), text
    assert ray_program.has_failed
    code, text = ray_program.run(*words)
    assert code == 0, text
    assert rows_of(receiver, 6000) == dict.fromkeys(range(6000), 1)
    code, text = ray_program.run(*words[:3], "1", "6001")
    assert code != 0
    assert "this epoch was committed with other content" in text


@pytest.mark.parametrize("fault", ["write", "before", "after"])
def test_a_spark_stream_that_is_killed_and_run_again_leaves_one_copy(
    spark_program: Program, receiver: Receiver, fault: str
) -> None:
    folder, places = spark_program.folder / "files", str(spark_program.folder / "checkpoints")
    for number in range(4):
        parquet(folder, number, range(1500 * number, 1500 * (number + 1)))
    words = ("stream", receiver.written_to, str(receiver.secrets), str(folder))
    code, text = spark_program.run(*words, places, fault=fault)
    assert code == (0 if fault == "write" else KILLED), text
    assert spark_program.has_failed
    code, text = spark_program.run(*words, places)
    assert code == 0, text
    assert rows_of(receiver, 6000) == dict.fromkeys(range(6000), 1)
    if fault == "after":  # another query under the same app counts its batches from 0
        parquet(folder, 0, range(7000, 8500))
        code, text = spark_program.run(*words, str(spark_program.folder / "anew"))
        assert code != 0
        assert "this epoch was committed with other content" in text


def test_a_table_of_spark_is_written_once(spark_program: Program, receiver: Receiver) -> None:
    folder = spark_program.folder / "files"
    parquet(folder, 0, range(5000))
    words = ("batch", receiver.written_to, str(receiver.secrets), str(folder), "monday")
    code, text = spark_program.run(*words, fault="after")
    assert code == KILLED, text
    code, text = spark_program.run(*words)
    assert code == 0, text
    assert rows_of(receiver, 5000) == dict.fromkeys(range(5000), 1)


@pytest.mark.parametrize("fault", ["write", "again", "before", "after"])
def test_a_flink_job_that_is_killed_and_goes_on_leaves_one_copy(
    flink_program: Program, receiver: Receiver, fault: str
) -> None:
    places = flink_program.folder / "checkpoints"
    words = (receiver.written_to, str(receiver.secrets), str(places), "0", "6000")
    code, text = flink_program.run(*words, fault=fault)
    assert code == (KILLED if fault in ("before", "after") else 0), text
    assert flink_program.has_failed
    if code == KILLED:
        code, text = flink_program.run(*words)
        assert code == 0, text
    assert rows_of(receiver, 6000) == dict.fromkeys(range(6000), 1)
    if fault == "after":  # another job under the same app counts its checkpoints from 1
        anew = str(flink_program.folder / "anew")
        code, text = flink_program.run(*words[:2], anew, "7000", "9000")
        assert code != 0
        assert "this epoch was committed with other content" in text


def test_a_flink_job_outlives_its_receiver(flink_program: Program, receiver: Receiver) -> None:
    """The writers fail, Flink starts them again at the last checkpoint, and they wait."""
    places = str(flink_program.folder / "checkpoints")
    words = (receiver.written_to, str(receiver.secrets), places, "0", "9000")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(flink_program.run, *words)
        inbox = receiver.folder / "inbox.db"
        for turn in range(2):
            eventually(lambda: committed_in(inbox) > turn, f"{turn + 1} epochs")  # noqa: B023
            receiver.kill()
            receiver.start()
        code, text = running.result()
    assert code == 0, text
    assert rows_of(receiver, 9000) == dict.fromkeys(range(9000), 1)


def test_flink_trains_a_job_whose_workers_and_receiver_are_killed(
    flink_program: Program, receiver: Receiver, job: Job
) -> None:
    chance = random.Random(5)
    job.env["PACELINE_SINK_TOKEN"] = receiver.secrets.read_text().split('"')[3]
    words = (receiver.written_to, str(receiver.secrets), str(flink_program.folder / "checkpoints"),
             "0", "4000")
    start(job, receiver)
    for fault in ("before", "after"):
        code, text = flink_program.run(*words, fault=fault)
        assert code == KILLED, text
        receiver.kill()
        receiver.start()
        kill_one(job, chance)
    code, text = flink_program.run(*words)
    assert code == 0, text
    until_done(job, 4000)
    assert end(job, receiver) == 0, job.stderr
    counts = acknowledged(job)
    assert set(counts.values()) == {1}


def committed_in(inbox: Path) -> int:
    """How many epochs the receiver has committed."""
    with closing(sqlite3.connect(f"file:{inbox}?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM epochs").fetchone()[0]


def test_spark_trains_a_job_whose_workers_and_receiver_are_killed(
    spark_program: Program, receiver: Receiver, job: Job
) -> None:
    chance = random.Random(4)
    job.env["PACELINE_SINK_TOKEN"] = receiver.secrets.read_text().split('"')[3]
    folder, places = spark_program.folder / "files", str(spark_program.folder / "checkpoints")
    words = ("stream", receiver.written_to, str(receiver.secrets), str(folder), places)
    start(job, receiver)
    for turn in range(3):
        parquet(folder, turn, range(800 * turn, 800 * (turn + 1)))
        code, text = spark_program.run(*words, fault=("before", "after", "write")[turn])
        assert code in (KILLED, 0), text
        if turn == 1:
            receiver.kill()
            receiver.start()
        code, text = spark_program.run(*words)
        assert code == 0, text
        kill_one(job, chance)
    until_done(job, 2400)
    assert end(job, receiver) == 0, job.stderr
    counts = acknowledged(job)
    assert set(counts.values()) == {1}
    trained: Counter[int] = Counter()
    for path in job.state.glob("work-*"):
        trained.update(int(line) for line in path.read_text().split())
    assert set(range(2400)) <= set(trained)
