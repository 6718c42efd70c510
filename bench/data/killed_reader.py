"""How long a killed reader's partitions are not read: leases beside a consumer group of Kafka.

    .venv/bin/python -m bench.data.killed_reader --rounds 5

A real broker on loopback (`make test-brokers` fetches it) and a topic of four partitions, each of
which gets 50 records a second. Two processes read it and note when they have which record. One gets
SIGKILL. The time is until the other one has a record of each partition of the dead one. Each round
runs all systems, each with new processes.

- ranks: `paceline run --nproc-per-node 2` and a `LeasedLoader`. A new world begins, so the other
  rank starts again, too.
- workers: `paceline run --workers 2 --ps 1`. The other worker goes on.
- group: confluent-kafka with `subscribe`, and the least session.timeout.ms that a broker accepts by
  default, 6 s.
- default: the same with the client's default of 45 s; only with `--default`.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import BENCH, Samples, machine

PARTITIONS = 4
RATE = 50  # records a second of each partition
OURS = {"ranks": ["--standalone", "--nproc-per-node", "2"],
        "workers": ["--workers", "2", "--ps", "1", "--tables"]}
SYSTEMS = {"group": 6_000, "default": 45_000}  # session.timeout.ms
sys.path.insert(0, str(BENCH.parent / "tests" / "brokers"))


# ---- the readers, in processes of their own ----


def note(out: Path) -> Callable[[list[bytes]], None]:
    file = open(out / str(os.getpid()), "w", buffering=1)  # noqa: SIM115  as long as the process

    def write(values: list[bytes]) -> None:
        now = time.monotonic()
        for partition in {int(one) for one in values}:
            file.write(f"{now} {partition}\n")

    return write


def read_ours(address: str, out: Path) -> None:
    from paceline.data import LeasedLoader, Stream

    write = note(out)
    for batch in LeasedLoader(Stream(f"kafka://{address}/clicks"), batch=256, wait=0.02):
        write(batch)


def read_group(address: str, out: Path, session_ms: int) -> None:
    from confluent_kafka import Consumer

    write = note(out)
    consumer = Consumer({"bootstrap.servers": address, "group.id": out.name,
                         "auto.offset.reset": "earliest", "session.timeout.ms": session_ms})
    consumer.subscribe(["clicks"])
    while True:
        write([value for one in consumer.consume(256, 0.02)
               if one.error() is None and (value := one.value()) is not None])


# ---- a round ----


def seen(out: Path) -> dict[int, list[tuple[float, int]]]:
    """By partition: when it was read, and by which process."""
    found: dict[int, list[tuple[float, int]]] = {}
    for path in out.iterdir():
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                when, partition = line.split()
                found.setdefault(int(partition), []).append((float(when), int(path.name)))
    return {partition: sorted(reads) for partition, reads in found.items()}


def until(what: str, ask: Callable[[], Any]) -> Any:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.02)
    raise RuntimeError(f"{what} does not happen")


def strike(out: Path) -> tuple[float, int]:
    """Kills the reader of some partitions, and returns how long and of how many."""

    def owners() -> dict[int, int]:
        reads = seen(out)
        now = time.monotonic()
        newest = {one: of[-1] for one, of in reads.items() if now - of[-1][0] < 1.0}
        both = len({pid for _, pid in newest.values()}) == 2
        # Settled: each of the last second's reads of a partition is by one process.
        single = all(len({pid for when, pid in reads[one] if now - when < 1.0}) == 1
                     for one in newest)
        return {one: pid for one, (_, pid) in newest.items()} if (
            len(newest) == PARTITIONS and both and single) else {}

    until("both read", owners)
    time.sleep(1.0)
    held = until("both read", owners)
    victim = held[0]
    lost = [one for one, pid in held.items() if pid == victim]
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()

    def again() -> list[float]:
        reads = seen(out)
        first = [min((when for when, pid in reads[one] if when > killed and pid != victim),
                     default=0.0) for one in lost]
        return first if all(first) else []

    return max(until("they are read again", again)) - killed, len(lost)


def one_round(system: str, address: str, folder: Path) -> tuple[float, int]:
    out = folder / f"{system}-{time.monotonic_ns()}"
    out.mkdir()
    own = str(Path(__file__).resolve())
    if system in OURS:
        run = folder / f"run-{time.monotonic_ns()}"
        tables = [str(folder / f"tables-{out.name}")] if system == "workers" else []
        commands = [[str(Path(sys.executable).with_name("paceline")), "run", "--run-dir", str(run),
                     *OURS[system], *tables, "--max-restarts", "100", own, "--read", system,
                     address, str(out)]]
    else:
        commands = [[sys.executable, own, "--read", system, address, str(out)]] * 2
    processes = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for one in commands]
    try:
        return strike(out)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def produce(address: str, is_over: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    while not is_over.wait(1 / RATE):
        for partition in range(PARTITIONS):
            producer.produce("clicks", str(partition).encode(), partition=partition)
        producer.poll(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--default", action="store_true")
    parser.add_argument("--read", nargs=3)
    given = parser.parse_args()
    if given.read:
        system, address, out = given.read
        if system in OURS:
            return read_ours(address, Path(out))
        return read_group(address, Path(out), SYSTEMS[system])
    # Of tests/brokers, which is no package.
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic
    from kafka_broker import KafkaBroker, why_not  # pyright: ignore[reportMissingImports]

    if why := why_not():
        raise SystemExit(f"KAFKA NOT MEASURED: {why}")
    print(machine(), file=sys.stderr)
    samples = Samples("killed_reader")
    is_over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="killed-") as name:
        folder = Path(name)
        (folder / "kafka").mkdir()
        broker = KafkaBroker(folder / "kafka")
        broker.start()
        try:
            admin = AdminClient({"bootstrap.servers": broker.address})
            for made in admin.create_topics([NewTopic("clicks", PARTITIONS, 1)]).values():
                made.result(60)
            sending = threading.Thread(target=produce, args=(broker.address, is_over))
            sending.start()
            for _ in range(given.rounds):
                for system in (*OURS, "group", *(["default"] if given.default else [])):
                    took, partitions = one_round(system, broker.address, folder)
                    samples.add(system, took, partitions=partitions)
        finally:
            is_over.set()
            broker.kill()
    return None


if __name__ == "__main__":
    main()
