"""A live stream under the real binary: whoever dies, each record counts exactly once.

The broker is librdkafka's mock cluster in this process. tests/brokers has a real one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import confluent_kafka
import pytest
from job import SCRIPTS, Job, eventually

NODES = ["--standalone", "--local-nodes", "2", "--nproc-per-node", "1", "--max-restarts", "30"]
# The workers end at different steps. If the last step was saved by one alone, it is in no storage.
SAVED_BY_ALL_OR_ONE = (0, 11)
WAKE = 10**6  # records from here on only make workers look whether the test is over


class Broker:
    def __init__(self) -> None:
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self.producer.list_topics(timeout=20).brokers.values()
        self.url = f"kafka://{broker.host}:{broker.port}/clicks"

    def produce(self, values: range) -> None:
        for value in values:
            self.producer.produce("clicks", str(value).encode(), partition=value % 4)
        assert self.producer.flush(60) == 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    yield Broker()


def start(job: Job, broker: Broker, *args: str) -> Job:
    return job.start(
        NODES,
        [str(SCRIPTS / "leasing_live.py"), "--out", str(job.state), "--url", broker.url, *args])


def shown(job: Job) -> dict:
    found = job.command("data", "show", "clicks", "--json", "--job", str(job.run_dir))
    return json.loads(found.stdout) if found.returncode == 0 else {"done": 0, "partitions": []}


def until_done(job: Job, count: int) -> None:
    eventually(lambda: shown(job)["done"] >= count, f"{count} records are done", job=job)


def end(job: Job, broker: Broker) -> int:
    """Lets the workers go. A worker looks after each batch, so records come until all have."""
    (job.state / "end").touch()
    over = threading.Event()

    def wake() -> None:
        for number in range(WAKE, WAKE + 4000, 4):
            if over.wait(0.2):
                return
            broker.produce(range(number, number + 4))

    waking = threading.Thread(target=wake)
    waking.start()
    try:
        return job.wait()
    finally:
        over.set()
        waking.join()


def acknowledged(job: Job) -> Counter[tuple[str, int]]:
    """How often each record was acknowledged, by partition and offset."""
    with closing(sqlite3.connect(f"file:{job.run_dir}/data.db?mode=ro", uri=True)) as db:
        names = {first >> 36: (text, base) for first, base, text in db.execute(
            "SELECT first, lease, text FROM facts WHERE kind = 12")}
        acks = db.execute("SELECT first, end FROM facts WHERE kind = 3").fetchall()
    counts: Counter[tuple[str, int]] = Counter()
    for first, last in acks:
        name, base = names[first >> 36]
        for ordinal in range(first, last):
            counts[name, base + ordinal % (1 << 36)] += 1
    return counts


def kill_one(job: Job, chance: random.Random) -> None:
    ranks = job.ranks()
    victim = chance.choice(["rank", "rank", "master"])
    pid = job.card["master"]["pid"] if victim == "master" or not ranks else (
        ranks[chance.choice(sorted(ranks))]["pid"])
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_kills_leave_every_record_acknowledged_once(job: Job, broker: Broker) -> None:
    chance = random.Random(1)
    broker.produce(range(400))
    start(job, broker)
    for turn in range(3):
        until_done(job, 100 + turn * 400)
        kill_one(job, chance)
        broker.produce(range(400 * (turn + 1), 400 * (turn + 2)))
    until_done(job, 1600)
    found = shown(job)
    assert sorted(one["name"] for one in found["partitions"]) == ["0", "1", "2", "3"]
    assert all(one["offset"] == 400 for one in found["partitions"])
    assert end(job, broker) == 0, job.stderr
    counts = acknowledged(job)
    assert {counts[str(p), offset] for p in range(4) for offset in range(400)} == {1}
    assert set(counts.values()) == {1}


def test_kills_leave_every_count_of_the_model_exact(job: Job, broker: Broker) -> None:
    chance = random.Random(2)
    broker.produce(range(400))
    start(job, broker, "--checkpoint", str(job.state / "checkpoints"))
    for turn in range(2):
        until_done(job, 200 + turn * 400)
        kill_one(job, chance)
        broker.produce(range(400 * (turn + 1), 400 * (turn + 2)))
    until_done(job, 1200)
    (job.state / "end").touch()
    kill_one(job, chance)  # the world goes back to a checkpoint, and what came after it comes again
    assert end(job, broker) in SAVED_BY_ALL_OR_ONE, job.stderr
    seen: Counter[int] = Counter()
    for path in job.state.glob("counts-*"):
        for line in path.read_text().splitlines():
            sample, count = line.split()
            seen[int(sample)] += int(count)
    assert {one: n for one, n in seen.items() if one < WAKE} == dict.fromkeys(range(1200), 1)


def test_a_worker_that_comes_later_gets_its_share_of_the_partitions(
    job: Job, broker: Broker
) -> None:
    broker.produce(range(40))
    start(job, broker)

    def is_shared() -> bool:
        holders = Counter(one["holder"] for one in shown(job)["partitions"])
        return holders == {0: 2, 1: 2}

    eventually(is_shared, "each rank has two of the four partitions", job=job)
    text = job.command("data", "show", "--job", str(job.run_dir)).stdout
    assert "PARTITION  OFFSET  HOLDER  LAG" in text
    assert "rank 1" in text
    assert end(job, broker) == 0, job.stderr
