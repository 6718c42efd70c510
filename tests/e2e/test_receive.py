"""`paceline receive` as a process: TLS, kills, its end, and what it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from job import binary, eventually

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.flight")

from paceline.sinks.writer import Sink  # noqa: E402
from paceline.sources.live import open_source  # noqa: E402
from paceline.sources.secrets import read_secrets  # noqa: E402

from paceline.data import LeasedLoader, Stream  # noqa: E402


class Receiver:
    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.words = words
        self.port = 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [binary(), "receive", f"127.0.0.1:{self.port}", "--dir", str(self.folder),
             "--partitions", "3", *self.words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"receiving at grpc(\+tls)?://127.0.0.1:(\d+)", line)
        assert found, line
        self.port = int(found[2])

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process.communicate()
        return code


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Receiver]]:
    found: list[Receiver] = []
    yield found
    for one in found:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def rows(first: int, count: int = 100) -> list[object]:
    return [pyarrow.record_batch({"click": list(range(first, first + count))})]


def test_a_killed_receiver_has_all_that_it_confirmed(made: list[Receiver], tmp_path: Path) -> None:
    made.append(receiver := Receiver(tmp_path / "inbox"))
    secrets = tmp_path / "inbox" / "token.toml"
    sink = Sink(f"grpc://127.0.0.1:{receiver.port}/clicks", app="etl", secrets=secrets)
    stream = Stream(f"flight://127.0.0.1:{receiver.port}/clicks", secrets=secrets,
                    decode=lambda row: row["click"])
    seen: list[int] = []
    with LeasedLoader(stream, batch=50, wait=0.1) as loader:
        for turn in range(4):
            receipt = sink.write(str(turn), "0", "0", rows(100 * turn))
            if turn % 2:
                receiver.end(signal.SIGKILL)
                receiver.start()
            assert sink.commit(str(turn), [receipt])
            if not turn % 2:
                receiver.end(signal.SIGKILL)
                receiver.start()
            assert not sink.commit(str(turn), [receipt])
            for batch in loader:
                seen += batch
                if len(seen) >= 100 * (turn + 1):
                    loader.done()
                    break
        assert seen == list(range(400))  # one part a partition at a time, in order
        # A reader that is connected does not keep the receiver from its end.
        assert receiver.end(signal.SIGTERM) == 0


def test_records_travel_by_tls(made: list[Receiver], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=receiver", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", cert], check=True, capture_output=True)
    made.append(receiver := Receiver(tmp_path / "inbox", "--cert", str(cert), "--key", str(key)))
    secrets = tmp_path / "client.toml"
    secrets.write_text((tmp_path / "inbox" / "token.toml").read_text() + f'"ca" = "{cert}"\n')
    secrets.chmod(0o600)
    sink = Sink(f"grpc://127.0.0.1:{receiver.port}/clicks", app="etl", secrets=secrets)
    sink.commit("1", [sink.write("1", "0", "0", rows(0))])
    stream = Stream(f"flight+tls://127.0.0.1:{receiver.port}/clicks", secrets=secrets,
                    decode=lambda row: row["click"])
    with LeasedLoader(stream, batch=100, wait=5.0) as loader:
        assert next(iter(loader)) == list(range(100))


def test_what_cannot_be_is_refused(made: list[Receiver], tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        found = subprocess.run([binary(), "receive", *words], check=False, capture_output=True,
                               text=True)
        assert found.returncode == 2
        return found.stderr

    made.append(receiver := Receiver(tmp_path / "inbox"))
    assert "PL-E220" in refused()
    assert "PL-E220" in refused("127.0.0.1")
    folder = ("--dir", str(tmp_path / "other"))
    assert "PL-E220" in refused(f"127.0.0.1:{receiver.port}", *folder)
    assert "another receiver serves this folder" in refused(
        "127.0.0.1:0", "--dir", str(tmp_path / "inbox"))
    assert "the receiver needs TLS" in refused("0.0.0.0:0", *folder)


def test_a_frozen_receiver_is_waited_for(
    made: list[Receiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.sources.flight._ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("paceline.sources.flight._READ_SECONDS", 0.2)
    made.append(receiver := Receiver(tmp_path / "inbox"))
    secrets = tmp_path / "inbox" / "token.toml"
    url = f"127.0.0.1:{receiver.port}/clicks"
    sink = Sink(f"grpc://{url}", app="etl", secrets=secrets)
    sink.commit("1", [sink.write("1", "0", "0", rows(0))])
    source = open_source(f"flight://{url}", start="earliest", settings=read_secrets(secrets))
    for part in source.partitions():
        source.open(part.name, part.base)
    receiver.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        assert source.poll(1000, 0.1) == []
    assert [part.name for part in source.partitions()] == ["0", "1", "2"]
    receiver.process.send_signal(signal.SIGCONT)
    found = eventually(lambda: source.poll(1000, 0.1), "the rows come")
    clicks = [row["click"] for run in found for row in run.values.to_pylist()]
    assert clicks == list(range(100))
    source.close()
