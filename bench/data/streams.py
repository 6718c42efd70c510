"""How many records a second a live stream gives, beside the bare client of the same source.

    .venv/bin/python -m bench.data.streams --rounds 5 --records 400000
    .venv/bin/python -m bench.data.streams --sources kafka --records 2000000

Records have 100 bytes, and one process reads all four partitions. Each round runs all systems, one
after the other, over the same data; a process each. The time is from the first batch to the last
record, so starting up does not count. `cpu` is what the reading thread itself took of it.

- kafka: a real broker on loopback (`make test-brokers` fetches it). The bare loop is
  confluent-kafka with assign and consume, read_committed, and keeps no offsets. `bare` is that loop
  as one writes it; `tuned` has what our source has found to be faster: a short
  fetch.queue.backoff.ms, and 512 messages a call.
- files: Parquet on this disk. The bare loop is pyarrow's iter_batches and to_pylist.
- flight: `paceline receive` on loopback. The bare loop is DoGet and to_pylist.

Each is read in three ways: `raw` hands out the records, `each` makes a number of each record, and
`whole` makes an array of numbers of an Arrow RecordBatch (`decode_batch`). The bare loops do the
same work.

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
WAYS = ("raw", "each", "whole")
sys.path.insert(0, str(BENCH.parent / "tests" / "brokers"))


def payload(number: int) -> bytes:
    return b"%012d" % number + b"x" * 88


# ---- the readers, in processes of their own ----


def number_of(record: Any) -> int:
    return int((record["value"] if isinstance(record, dict) else record)[:12])


def numbers_of(raw: Any) -> Any:
    import pyarrow
    import pyarrow.compute

    texts = pyarrow.compute.binary_slice(raw.column("value"), 0, 12)  # pyright: ignore
    return texts.cast(pyarrow.string()).cast(pyarrow.int64()).to_numpy()


def ours(url: str, secrets: str, way: str) -> Iterator[int]:
    from paceline.data import LeasedLoader, Stream

    ways: dict[str, dict[str, Any]] = {
        "raw": {}, "each": {"decode": number_of}, "whole": {"decode_batch": numbers_of}}
    stream = Stream(url, name="bench", secrets=secrets or None, **ways[way])
    with LeasedLoader(stream, batch=BATCH, wait=0.02) as loader:
        for batch in loader:
            yield len(batch)


def made_of(values: list[Any], way: str) -> int:
    """The size of the batch, after the work of this way was done."""
    if way == "each":
        return len([number_of(one) for one in values])
    if way == "whole":
        import pyarrow

        column = pyarrow.array(values, pyarrow.binary())
        return len(numbers_of(pyarrow.RecordBatch.from_arrays([column], ["value"])))
    return len(values)


def bare_kafka(url: str, way: str, most: int, **settings: Any) -> Iterator[int]:
    from confluent_kafka import Consumer, TopicPartition

    address, topic = url.removeprefix("kafka://").split("/")
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "queued.max.messages.kbytes": 64 << 10, **settings})
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    while True:
        values: list[Any] = []
        while len(values) < BATCH:
            messages = consumer.consume(min(most, BATCH - len(values)), 0.02)
            values += [one.value() for one in messages if one.error() is None]
            if len(messages) < most:
                break
        if values:
            yield made_of(values, way)


def of_rows(raw: Any, way: str) -> int:
    return len(numbers_of(raw)) if way == "whole" else made_of(raw.to_pylist(), way)


def bare_files(url: str, way: str) -> Iterator[int]:
    import pyarrow.parquet

    folder = Path(url.removeprefix("files://")).parent
    for path in sorted(folder.glob("*.parquet")):
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(BATCH):
            yield of_rows(batch, way)


def bare_flight(url: str, secrets: str, way: str) -> Iterator[int]:
    from paceline.sinks.client import Client
    from paceline.sources.secrets import read_secrets

    client = Client(url, read_secrets(secrets))
    for partition in range(PARTITIONS):
        for chunk in client.get(partition, 0, 600.0):
            yield of_rows(chunk.data, way)


def read(system: str, way: str, url: str, secrets: str, records: int) -> None:
    kind = url.partition(":")[0]
    if system == "ours":
        counts = ours(url, secrets, way)
    elif kind == "kafka":
        counts = (bare_kafka(url, way, BATCH) if system == "bare"
                  else bare_kafka(url, way, 512, **{"fetch.queue.backoff.ms": 10}))
    else:
        counts = bare_files(url, way) if kind == "files" else bare_flight(url, secrets, way)
    first = left = next(counts)
    began, cpu = time.perf_counter(), time.thread_time()
    while left < records:
        left += next(counts)
    took, cpu = time.perf_counter() - began, time.thread_time() - cpu
    print(json.dumps({"seconds": took, "rate": (left - first) / took,
                      "cpu_ns": round(cpu / (left - first) * 1e9)}), flush=True)


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
        while True:
            try:
                producer.produce("clicks", payload(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
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
    systems = {kind: ("bare", "tuned", "ours") if kind == "kafka" else ("bare", "ours")
               for kind in urls}
    for _ in range(rounds):
        for kind, (url, secrets) in urls.items():
            for way in WAYS:
                for system in systems[kind]:
                    done = subprocess.run(
                        [sys.executable, "-m", "bench.data.streams", "--read", system, way, url,
                         secrets, str(records)], check=True, stdout=subprocess.PIPE, text=True)
                    found = json.loads(done.stdout.splitlines()[-1])
                    samples.add(f"{kind} {way} {system}", found["seconds"], rate=found["rate"],
                                cpu_ns=found["cpu_ns"], records=records)
    for kind in urls:
        for way in WAYS:
            of = {system: [row for row in samples.rows if row["system"] == f"{kind} {way} {system}"]
                  for system in systems[kind]}
            show(f"{kind} {way}", of)


def show(what: str, of: dict[str, list[dict[str, Any]]]) -> None:
    """Medians, and ours ÷ each peer, by rounds."""
    for system, rows in of.items():
        rate, cpu = (statistics.median(row[key] for row in rows) for key in ("rate", "cpu_ns"))
        text = f"{what:12} {system:6} {rate:12,.0f} records/s {cpu:7,.0f} ns of CPU"
        if system != "ours":
            pairs = list(zip(of["ours"], rows, strict=True))
            faster = statistics.median(own["rate"] / peer["rate"] for own, peer in pairs)
            less = statistics.median(peer["cpu_ns"] / own["cpu_ns"] for own, peer in pairs)
            text += f"   ours: {faster:.2f} of its rate, {less:.2f} by CPU"
        print(text, flush=True)


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
    parser.add_argument("--sources", default="files,flight,kafka")
    parser.add_argument("--read", nargs=5)
    given = parser.parse_args()
    if given.read:
        system, way, url, secrets, records = given.read
        return read(system, way, url, secrets, int(records))
    print(machine(), file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="streams-") as name:
        folder = Path(name)
        if given.kills:
            hits, lost, repeated = kills(folder / "inbox", given.kills)
            print(f"receiver and writer: {hits} kills, {lost} lost, {repeated} repeated")
            return None
        wanted = given.sources.split(",")
        urls: dict[str, tuple[str, str]] = {}
        if "files" in wanted:
            urls["files"] = (fill_files(folder / "files", given.records), "")
        receiver = Receiver(folder / "inbox")
        broker: Any = None
        try:
            if "flight" in wanted:
                urls["flight"] = (fill_receiver(receiver, given.records), receiver.secrets)
            # Of tests/brokers, which is no package.
            from kafka_broker import KafkaBroker, why_not  # pyright: ignore[reportMissingImports]

            if "kafka" not in wanted:
                pass
            elif why := why_not():
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
