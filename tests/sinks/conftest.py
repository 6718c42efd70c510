"""`make test-sinks`: real Ray Data, Spark and Flink write into a job. Skips loudly without them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from job import Job, end_shared_starters  # noqa: E402
from paceline.sinks.writer import Sink  # noqa: E402

PYTHON = ROOT / "build" / "sinks" / "bin" / "python"
PACELINE = ROOT / ".venv" / "bin" / "paceline"
FLINK = ROOT / "build" / "flink"
JAVA = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/java.{one}=ALL-UNNAMED" for one in ("lang", "nio", "util")),
        "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
        ":".join(str(FLINK / one) for one in ("test-classes", "classes", "lib/*"))]
_numbers = count()


def must_have(package: str) -> None:
    """Skips if the environment that tools/setup.sh makes does not have it."""
    if not PYTHON.exists():
        pytest.skip(f"{package.upper()} NOT TESTED: there is no {PYTHON}: `make test-sinks`")
    found = subprocess.run([PYTHON, "-c", f"import {package}"], check=False, capture_output=True)
    if found.returncode != 0:
        pytest.skip(f"{package.upper()} NOT TESTED: it is not in build/sinks")
    if package == "pyspark" and shutil.which("java") is None:
        pytest.skip("SPARK NOT TESTED: there is no Java here (apt-get install default-jre)")


class Receiver:
    """`paceline receive` as a process; its folder outlives `kill`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [PACELINE, "receive", f"127.0.0.1:{self.port}", "--dir", str(self.folder),
             "--partitions", "4", "--free", "1MiB"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"receiving at grpc://127.0.0.1:(\d+)", line)
        assert found, line
        self.port = int(found[1])

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    @property
    def secrets(self) -> Path:
        return self.folder / "token.toml"

    @property
    def url(self) -> str:
        return f"flight://127.0.0.1:{self.port}/clicks"

    @property
    def written_to(self) -> str:
        return f"grpc://127.0.0.1:{self.port}/clicks"

    def produce(self, values: range) -> None:
        """As the brokers of other tests: an epoch of its own for these values."""
        sink = Sink(self.written_to, app="test", secrets=self.secrets)
        name = str(next(_numbers))
        sink.commit(name, [sink.write(name, str(writer), "0", [
            pyarrow.record_batch({"click": list(values[writer::4])})]) for writer in range(4)])


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "inbox")
    yield made
    made.kill()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    Job.made.clear()
    yield Job(tmp_path, "run")
    orphans = [found for found in [one.end() for one in Job.made] if found]
    end_shared_starters()
    assert not orphans


class Program:
    """A program of Ray, Spark or Flink, started again and again with faults in it."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        self.folder = folder
        self.program = program
        self.has_failed = False
        """The fault of the last run has happened."""
        # Ray's sockets need a short path.
        self.scratch = Path(tempfile.mkdtemp(prefix="sinks-", dir="/tmp"))

    def run(self, *words: str, fault: str = "") -> tuple[int, str]:
        """Exit code, and what it wrote. `fault`: see faulty.py. All its processes have ended."""
        number = next(_numbers)
        die, mark = self.folder / f"die-{number}", self.folder / f"fault-{number}"
        environment = {
            **os.environ, "FAULT": fault, "FAULT_MARK": str(mark), "DIE_FILE": str(die),
            "PYTHONPATH": str(HERE), "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "SCRATCH": str(self.scratch),
            "PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"}
        out = self.folder / f"out-{number}"
        command = [sys.executable, HERE / "supervisor.py", die, *self.program, *words]
        with open(out, "wb") as file, subprocess.Popen(
                command, env=environment, stdout=file, stderr=file,
                start_new_session=True) as supervisor:
            try:
                code = supervisor.wait(timeout=300)
            finally:
                die.touch()  # if this test ends early, so does the program
        self.has_failed = mark.exists()
        return code, out.read_text(errors="replace")

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


@pytest.fixture
def ray_program(tmp_path: Path) -> Iterator[Program]:
    must_have("ray")
    made = Program(tmp_path, [str(PYTHON), str(HERE / "ray_job.py")])
    yield made
    made.close()


@pytest.fixture
def spark_program(tmp_path: Path) -> Iterator[Program]:
    must_have("pyspark")
    made = Program(tmp_path, [str(PYTHON), str(HERE / "spark_job.py")])
    yield made
    made.close()


@pytest.fixture
def flink_program(tmp_path: Path) -> Iterator[Program]:
    if shutil.which("java") is None:
        pytest.skip("FLINK NOT TESTED: there is no Java here (apt-get install default-jre)")
    if not (FLINK / "test-classes" / "paceline" / "flink" / "ClicksJob.class").exists():
        pytest.skip(f"FLINK NOT TESTED: there is nothing in {FLINK}; `make test-sinks` makes it "
                    "with Maven and a JDK (apt-get install maven)")
    made = Program(tmp_path, [*JAVA, "paceline.flink.ClicksJob"])
    yield made
    made.close()
