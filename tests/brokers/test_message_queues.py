"""Topics of a real RocketMQ and a real Pulsar become rows of a receiver, each message once."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import PYTHON, free_port
from pulsar_broker import Pulsar
from rocketmq_broker import RocketMq

from paceline.data import LeasedLoader, Stream

KILLS = 20
MESSAGES = 4_000


class Process:
    """A program that may be killed and started again."""

    def __init__(self, folder: Path, name: str, words: list[str]) -> None:
        self.log = folder / f"{name}.log"
        self._words = words
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(PYTHON), "-m", *self._words], stdout=log, stderr=log)

    def strike(self, how: random.Random) -> None:
        """Kills it, or stops it for a while."""
        assert self.process is not None
        if how.random() < 0.3:
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            self.process.send_signal(signal.SIGCONT)
            return
        self.kill()
        self.start()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[tuple[Process, str, Path]]:
    inbox = tmp_path / "inbox"
    address = f"127.0.0.1:{free_port()}"
    one = Process(tmp_path, "receiver", ["paceline.receiver", address, "--dir", str(inbox)])
    until = time.monotonic() + 60
    while not (inbox / "token.toml").exists():
        assert time.monotonic() < until, one.log.read_text()
        time.sleep(0.1)
    yield one, address, inbox / "token.toml"
    one.kill()


def expect_each_once(address: str, secrets: Path, wanted: int) -> None:
    stream = Stream(f"flight://{address}/clicks", secrets=secrets,
                    decode=lambda row: int(row["value"]))
    seen: Counter[int] = Counter()
    with LeasedLoader(stream, batch=256, wait=0.5) as loader:
        until = time.monotonic() + 600
        for samples in loader:
            seen.update(samples)
            loader.done()
            if len(seen) >= wanted or time.monotonic() > until:
                break
        for samples in loader.soon(5.0):  # what came twice
            seen.update(samples)
        loader.done()
    assert seen == Counter(range(wanted))


def strike_all(processes: list[Any], seed: int) -> None:
    how = random.Random(seed)
    for _ in range(KILLS):
        time.sleep(how.uniform(0.5, 2))
        how.choice(processes).strike(how)


def test_rocketmq_messages_become_rows_once(
    rocketmq: RocketMq, receiver: tuple[Process, str, Path], tmp_path: Path
) -> None:
    one, address, secrets = receiver
    rocketmq.make("clicks")
    sink = Process(tmp_path, "sink", [
        "paceline.sinks.rocketmq", f"rocketmq://{rocketmq.address}/clicks",
        f"grpc://{address}/clicks", "--secrets", str(secrets), "--every", "0.2"])
    try:
        rocketmq.produce("clicks", range(MESSAGES // 2))
        strike_all([one, sink], 1)
        rocketmq.kill()
        rocketmq.start()
        rocketmq.produce("clicks", range(MESSAGES // 2, MESSAGES))
        strike_all([one, sink], 2)
        expect_each_once(address, secrets, MESSAGES)
    finally:
        sink.kill()


def test_pulsar_messages_become_rows_once(
    pulsar: Pulsar, receiver: tuple[Process, str, Path], tmp_path: Path
) -> None:
    one, address, secrets = receiver
    sink = Process(tmp_path, "sink", [
        "paceline.sinks.pulsar", f"pulsar://{pulsar.address}/clicks", f"grpc://{address}/clicks",
        "--secrets", str(secrets), "--every", "0.2"])
    try:
        pulsar.produce("clicks", range(MESSAGES // 2))
        strike_all([one, sink], 1)
        pulsar.kill()
        pulsar.start()
        pulsar.produce("clicks", range(MESSAGES // 2, MESSAGES))
        strike_all([one, sink], 2)
        expect_each_once(address, secrets, MESSAGES)
    finally:
        sink.kill()
