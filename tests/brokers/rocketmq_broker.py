"""A real RocketMQ on loopback: name server, broker and proxy, from jars of Maven."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from kafka_broker import PYTHON, ROOT, free_port, produce

JARS = ROOT / "build" / "brokers" / "rocketmq"
OPEN = ["--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-opens", "java.base/java.nio=ALL-UNNAMED",
        "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"]
BROKER = """
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort={port}
haListenPort={ha}
namesrvAddr=127.0.0.1:{names}
storePathRootDir={folder}/store
storePathCommitLog={folder}/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=300000
maxIndexNum=10000
maxHashSlotNum=2500
timerMaxDelaySec=3600
autoCreateTopicEnable=false
flushDiskType=SYNC_FLUSH
"""


def why_not() -> str | None:
    """Why no broker can be started here; None if one can."""
    if shutil.which("java") is None:
        return "there is no Java here"
    if not any(JARS.glob("rocketmq-broker-*.jar")):
        return f"there are no jars in {JARS}: `make test-brokers` fetches them with Maven"
    if not PYTHON.exists():
        return f"there is no {PYTHON} with the client"
    return None


class RocketMq:
    """The broker's files outlive `kill`; `start` goes on with them, on the same ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = free_port()
        self._broker_port = free_port()
        self.port = free_port()
        (folder / "names.conf").write_text(
            f"listenPort={self.names}\nbindAddress=127.0.0.1\n")
        (folder / "broker.conf").write_text(BROKER.format(
            port=self._broker_port, ha=free_port(), names=self.names, folder=folder))
        (folder / "proxy.json").write_text(json.dumps({
            "rocketMQClusterName": "DefaultCluster", "proxyMode": "CLUSTER",
            "namesrvAddr": f"127.0.0.1:{self.names}", "localServeAddr": "127.0.0.1",
            "grpcServerPort": self.port, "remotingListenPort": free_port()}))
        self._names = self._java("names", "org.apache.rocketmq.namesrv.NamesrvStartup",
                                 "-c", str(folder / "names.conf"))
        self._broker: subprocess.Popen[bytes] | None = None
        self._proxy: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        _until_open(self.names, self._names, self.folder / "names.out")
        self._broker = self._java("broker", "org.apache.rocketmq.broker.BrokerStartup",
                                  "-c", str(self.folder / "broker.conf"))
        _until_open(self._broker_port, self._broker, self.folder / "broker.out")
        self._proxy = self._java("proxy", "org.apache.rocketmq.proxy.ProxyStartup",
                                 "-pc", str(self.folder / "proxy.json"))
        _until_open(self.port, self._proxy, self.folder / "proxy.out")

    def make(self, topic: str, queues: int = 4) -> None:
        self._admin("updateTopic", "-n", f"127.0.0.1:{self.names}", "-c", "DefaultCluster", "-t",
                    topic, "-r", str(queues), "-w", str(queues), "-a", "+message.type=NORMAL")

    def produce(self, topic: str, values: range) -> None:
        produce("rocketmq", self.address, topic, values, self.folder)

    def kill(self) -> None:
        """The broker and its proxy; the name server lives."""
        for one in (self._proxy, self._broker):
            _kill(one)
        self._broker = self._proxy = None

    def close(self) -> None:
        self.kill()
        _kill(self._names)

    def _admin(self, *words: str) -> None:
        self._java("admin", "org.apache.rocketmq.tools.command.MQAdminStartup", *words).wait(120)

    def _java(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.out", "ab") as out:
            return subprocess.Popen(
                ["java", "-Xmx384m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC",
                 "-XX:TieredStopAtLevel=1", *OPEN, f"-Duser.home={self.folder}", "-cp",
                 f"{JARS}/*", *words],
                stdout=out, stderr=out,
                env={"ROCKETMQ_HOME": str(self.folder), "PATH": "/usr/bin:/bin"})


def _until_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(0.1)
    raise AssertionError(f"nothing listens at port {port}: {log.read_text()[-2000:]}")


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.send_signal(signal.SIGKILL)
        process.wait()
