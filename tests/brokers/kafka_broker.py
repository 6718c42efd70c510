"""A real Kafka broker on loopback, from the jars that Maven has put into build/brokers/kafka."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "build" / "brokers" / "kafka"
# The clients of Pulsar and RocketMQ have many dependencies, so they are not in .venv.
PYTHON = ROOT / "build" / "brokers" / "python" / "bin" / "python"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=500
log.segment.delete.delay.ms=100
"""


def why_not() -> str | None:
    """Why no broker can be started here; None if one can."""
    if shutil.which("java") is None:
        return "there is no Java here"
    if not any(JARS.glob("kafka_*.jar")):
        return f"there are no jars in {JARS}: `make test-brokers` fetches them with Maven"
    return None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def produce(kind: str, address: str, topic: str, values: range, folder: Path) -> None:
    """Sends the values as texts, by `produce.py`."""
    with open(folder / "produce.out", "ab") as out:
        done = subprocess.run(
            [str(PYTHON), str(Path(__file__).with_name("produce.py")), kind, address, topic,
             str(values.start), str(values.stop)],
            stdout=out, stderr=out, env={**os.environ, "HOME": str(folder)}, check=False)
    assert done.returncode == 0, (folder / "produce.out").read_text()[-2000:]


class KafkaBroker:
    """Its log outlives `kill`; `start` goes on with it, on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._settings = folder / "kafka.properties"
        self._settings.write_text(
            SETTINGS.format(port=self.port, controller=free_port(), folder=folder))
        self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c",
                   str(self._settings)).wait(120)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = self._java("kafka.Kafka", str(self._settings))
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, (self.folder / "out").read_text()[-2000:]
            time.sleep(0.1)
        raise AssertionError("the broker does not listen")

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _java(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "out", "ab") as out:
            return subprocess.Popen(
                ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                 f"{JARS}/*", *words], stdout=out, stderr=out)
