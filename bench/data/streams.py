"""How many records a second a live stream gives, beside the bare client of the same source.

    .venv/bin/python -m bench.data.streams --rounds 5 --records 400000

Records have 100 bytes, and one process reads all four partitions. Each round runs all systems, one
after the other, over the same data; a process each. The time is from the first batch to the last
record, so starting up does not count.

- kafka: a real broker on loopback (`make test-brokers` fetches it). The bare loop is
  confluent-kafka with assign and consume, read_committed, and keeps no offsets.
- files: Parquet on this disk. The bare loop is pyarrow's iter_batches and to_pylist.
- flight: `paceline receive` on loopback. The bare loop is DoGet and to_pylist.

`--kills N` counts what N kills of the receiver or of its writer lose or repeat, in other rounds.
"""

import argparse
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.harness import BENCH, Samples, machine

PARTITIONS = 4
BATCH = 4096
sys.path.insert(0, str(BENCH.parent / "tests" / "brokers"))


def payload(number: int) -> bytes:
    return b"%012d" % number + b"x" * 88


# ---- the readers, in processes of their own ----


def ours(url: str, secrets: str) -> Iterator[int]:
    from paceline.data import LeasedLoader, Stream

    stream = Stream(url, name="bench", secrets=secrets or None)
    with LeasedLoader(stream, batch=BATCH, wait=0.02) as loader:
        for batch in loader:
            yield len(batch)


def bare_kafka(url: str) -> Iterator[int]:
    from confluent_kafka import Consumer, TopicPartition

    address, topic = url.removeprefix("kafka://").split("/")
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "queued.max.messages.kbytes": 64 << 10})
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    while True:
        values = [one.value() for one in consumer.consume(BATCH, 0.02) if one.error() is None]
        if values:
            yield len(values)


def bare_files(url: str) -> Iterator[int]:
    import pyarrow.parquet

    folder = Path(url.removeprefix("files://")).parent
    for path in sorted(folder.glob("*.parquet")):
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(BATCH):
            yield len(batch.to_pylist())


def bare_flight(url: str, secrets: str) -> Iterator[int]:
    from paceline.sinks.client import Client
    from paceline.sources.secrets import read_secrets

    client = Client(url, read_secrets(secrets))
    for partition in range(PARTITIONS):
        for chunk in client.get(partition, 0, 600.0):
            yield len(chunk.data.to_pylist())


def read(system: str, url: str, secrets: str, records: int) -> None:
    kind = url.partition(":")[0]
    if system == "ours":
        counts = ours(url, secrets)
    else:
        counts = (bare_kafka(url) if kind == "kafka" else bare_files(url) if kind == "files"
                  else bare_flight(url, secrets))
    first = left = next(counts)
    began = time.perf_counter()
    while left < records:
        left += next(counts)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took, "rate": (left - first) / took}), flush=True)


# ---- the sources ----


class Receiver:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "paceline"), "receive", f"127.0.0.1:{self.port}",
             "--dir", str(self.folder), "--partitions", str(PARTITIONS)],
            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found
        self.port = int(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def secrets(self) -> str:
        return str(self.folder / "token.toml")

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}/clicks"


def tables(records: int) -> Iterator[tuple[int, Any]]:
    """A partition's number, and its records."""
    import pyarrow

    share = records // PARTITIONS
    for one in range(PARTITIONS):
        values = [payload(one * share + place) for place in range(share)]
        yield one, pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())})


def fill_kafka(broker: Any, records: int) -> str:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic("clicks", PARTITIONS, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20,
                         "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce("clicks", payload(number), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush(120)
    return f"kafka://{broker.address}/clicks"


def fill_files(folder: Path, records: int) -> str:
    import pyarrow.parquet

    folder.mkdir()
    for one, table in tables(records):
        pyarrow.parquet.write_table(table, folder / f"{one}.parquet")
    return f"files://{folder}/*.parquet"


def fill_receiver(receiver: Receiver, records: int) -> str:
    from paceline.sinks.writer import Sink

    sink = Sink(f"grpc://{receiver.url}", app="bench", secrets=receiver.secrets)
    sink.commit("0", [sink.write("0", str(one), "0", table.to_batches())
                      for one, table in tables(records)])
    return f"flight://{receiver.url}"


def measure(samples: Samples, urls: dict[str, tuple[str, str]], rounds: int, records: int) -> None:
    for _ in range(rounds):
        for kind, (url, secrets) in urls.items():
            for system in ("bare", "ours"):
                done = subprocess.run(
                    [sys.executable, "-m", "bench.data.streams", "--read", system, url, secrets,
                     str(records)], check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                samples.add(f"{kind} {system}", found["seconds"], rate=found["rate"])
    for kind in urls:
        rates = {system: statistics.median(
            row["rate"] for row in samples.rows if row["system"] == f"{kind} {system}")
            for system in ("bare", "ours")}
        print(f"{kind:8} bare {rates['bare']:12,.0f} records/s   ours {rates['ours']:12,.0f} "
              f"records/s   ratio {rates['ours'] / rates['bare']:.2f}   n={rounds}")


# ---- kills ----

WRITER = """
import sys, pyarrow
from paceline.sinks.writer import Sink
sink = Sink(sys.argv[1], app="bench", secrets=sys.argv[2])
epoch = sys.argv[3]
rows = [{"value": int(epoch) * 1000 + one} for one in range(1000)]
import uuid
receipts = [sink.write(epoch, str(one), uuid.uuid4().hex, [
    pyarrow.RecordBatch.from_pylist(rows[one::4])]) for one in range(4)]
sink.commit(epoch, receipts)
"""


def kills(folder: Path, count: int) -> tuple[int, int, int]:
    """The kills that hit a process at work, and the records lost and repeated."""
    from paceline.data import LeasedLoader, Stream

    chance = random.Random(1)
    receiver = Receiver(folder)
    stream = Stream(f"flight://{receiver.url}", secrets=receiver.secrets,
                       decode=lambda row: row["value"])
    seen: Counter[int] = Counter()
    hits = epoch = 0
    with LeasedLoader(stream, batch=256, wait=0.05) as loader:
        while hits < count:
            command = [sys.executable, "-c", WRITER, f"grpc://{receiver.url}", receiver.secrets,
                       str(epoch)]
            writer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.2, 0.8))  # most of it is the start of Python
            if writer.poll() is None:
                hits += 1
                if chance.random() < 0.5:
                    writer.send_signal(signal.SIGKILL)
                else:
                    receiver.kill()
                    receiver.start()
            if writer.wait() != 0:
                for batch in loader.soon(0.05):
                    seen.update(batch)
                continue  # the same epoch again
            epoch += 1
            for batch in loader.soon(0.05):
                seen.update(batch)
        for batch in loader:
            seen.update(batch)
            if sum(seen.values()) >= 1000 * epoch:
                loader.done()
                break
        for batch in loader.soon(1.0):
            seen.update(batch)
    receiver.kill()
    lost = sum(1 for one in range(1000 * epoch) if not seen[one])
    return hits, lost, sum(seen.values()) - len(seen)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--read", nargs=4)
    given = parser.parse_args()
    if given.read:
        system, url, secrets, records = given.read
        return read(system, url, secrets, int(records))
    print(machine(), file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="streams-") as name:
        folder = Path(name)
        if given.kills:
            hits, lost, repeated = kills(folder / "inbox", given.kills)
            print(f"receiver and writer: {hits} kills, {lost} lost, {repeated} repeated")
            return None
        urls = {"files": (fill_files(folder / "files", given.records), "")}
        receiver = Receiver(folder / "inbox")
        broker: Any = None
        try:
            urls["flight"] = (fill_receiver(receiver, given.records), receiver.secrets)
            # Of tests/brokers, which is no package.
            from kafka_broker import KafkaBroker, why_not  # pyright: ignore[reportMissingImports]

            if why := why_not():
                print(f"KAFKA NOT MEASURED: {why}", file=sys.stderr)
            else:
                (folder / "kafka").mkdir()
                broker = KafkaBroker(folder / "kafka")
                broker.start()
                urls["kafka"] = (fill_kafka(broker, given.records), "")
            measure(Samples("data_streams"), urls, given.rounds, given.records)
        finally:
            receiver.kill()
            if broker is not None:
                broker.kill()
    return None


if __name__ == "__main__":
    main()
