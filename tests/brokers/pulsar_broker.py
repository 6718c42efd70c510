"""A real Pulsar on loopback, standalone, from jars of Maven."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from kafka_broker import PYTHON, ROOT, free_port, produce

JARS = ROOT / "build" / "brokers" / "pulsar"
OPEN = [word for package in (
    "java.base/sun.nio.ch", "java.base/java.nio", "java.base/java.lang", "java.base/java.io",
    "java.base/java.util.zip", "java.base/sun.net", "java.base/jdk.internal.platform",
    "java.management/sun.management", "jdk.management/com.sun.management.internal",
) for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
SETTINGS = """
brokerServicePort={port}
webServicePort={web}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
clusterName=standalone
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
allowLoopback=true
"""


def why_not() -> str | None:
    """Why no broker can be started here; None if one can."""
    if shutil.which("java") is None:
        return "there is no Java here"
    if not any(JARS.glob("pulsar-broker-*.jar")):
        return f"there are no jars in {JARS}: `make test-brokers` fetches them with Maven"
    if not PYTHON.exists():
        return f"there is no {PYTHON} with the client"
    return None


class Pulsar:
    """Its files outlive `kill`; `start` goes on with them, on the same ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._web = free_port()
        self._books = free_port()
        (folder / "standalone.conf").write_text(SETTINGS.format(port=self.port, web=self._web))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with open(self.folder / "out", "ab") as out:
            self._process = subprocess.Popen(
                ["java", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
                 "-XX:TieredStopAtLevel=1", *OPEN, "-cp", f"{JARS}/*",
                 "org.apache.pulsar.PulsarStandaloneStarter",
                 "--config", str(self.folder / "standalone.conf"), "--no-functions-worker",
                 "--no-stream-storage", "-a", "127.0.0.1",
                 "--metadata-dir", str(self.folder / "metadata"),
                 "--bookkeeper-dir", str(self.folder / "books"),
                 "--bookkeeper-port", str(self._books)],
                stdout=out, stderr=out, cwd=self.folder,
                env={"PULSAR_STANDALONE_USE_ZOOKEEPER": "0", "PATH": "/usr/bin:/bin"})
        health = f"http://127.0.0.1:{self._web}/admin/v2/brokers/health"
        until = time.monotonic() + 300
        while time.monotonic() < until:
            assert self._process.poll() is None, (self.folder / "out").read_text()[-2000:]
            try:
                with urllib.request.urlopen(health, timeout=20) as said:
                    if said.read() == b"ok":
                        return
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        raise AssertionError((self.folder / "out").read_text()[-2000:])

    def produce(self, topic: str, values: range) -> None:
        produce("pulsar", self.address, topic, values, self.folder)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
