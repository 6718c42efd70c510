"""What the receiver withstands: folders of others, hostile batches, a full disk, strangers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.flight
import pytest
from paceline.receiver.inbox import Inbox
from paceline.receiver.names import PartName
from paceline.receiver.refusal import Refusal
from paceline.sinks.client import Client
from receivers import Served, batch

from paceline.data import DataError


def test_a_folder_with_other_files_is_refused_and_nothing_in_it_is_touched(tmp_path: Path) -> None:
    own = tmp_path / "data"
    (own / "parts" / "2024").mkdir(parents=True)
    (own / "parts" / "2024" / "a.csv").write_text("mine")
    with pytest.raises(Refusal, match="cannot use this folder") as refused:
        Inbox(str(own))
    assert refused.value.code == "PL-E220"
    assert (own / "parts" / "2024" / "a.csv").read_text() == "mine"


def test_the_sweep_takes_only_files_of_parts_in_real_folders(tmp_path: Path) -> None:
    Inbox(str(tmp_path / "inbox")).close()
    parts, elsewhere = tmp_path / "inbox" / "parts", tmp_path / "elsewhere"
    elsewhere.mkdir()
    part = f"{'a' * 24}.arrow"
    for folder in (elsewhere, parts / "clicks"):
        folder.mkdir(exist_ok=True)
        for name in (part, f".{part}.tmp", "notes.txt"):
            (folder / name).write_text("x")
    (parts / "linked").symlink_to(elsewhere)
    Inbox(str(tmp_path / "inbox")).close()
    assert sorted(os.listdir(elsewhere)) == sorted([part, f".{part}.tmp", "notes.txt"])
    assert os.listdir(parts / "clicks") == ["notes.txt"]


def test_nobody_else_can_look_into_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    Inbox(str(folder)).close()
    os.chmod(folder, 0o755)  # as earlier versions made it
    Inbox(str(folder)).close()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_damaged_dictionary_is_refused_before_it_is_read(served: Served) -> None:
    offsets = numpy.array([0, 8], numpy.int32)
    values = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"abcdefgh")])
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 4, pyarrow.int32()), values, safe=False)
    damaged = pyarrow.RecordBatch.from_arrays([column], names=["click"])
    offsets[1] = 1 << 20  # as a message may say, which Arrow's reader believes
    part = served.inbox.begin(PartName("other", "etl", "1", "0", "0"), damaged.schema)
    with pytest.raises(Refusal, match="a batch is damaged"):
        part.add(damaged)
    part.discard()


def test_a_list_whose_row_takes_no_bytes_is_refused(served: Served) -> None:
    schema = pyarrow.schema([("click", pyarrow.list_(pyarrow.null(), 1 << 24))])
    with pytest.raises(Refusal, match="at most 65536 values"):
        served.inbox.begin(PartName("other", "etl", "1", "0", "0"), schema)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to listen as another user")
def test_no_token_is_sent_to_another_user_who_listens_there(served: Served) -> None:
    stolen = """
import os, socket, sys
os.setuid(65534)
one = socket.create_server(("127.0.0.1", 0))
print(one.getsockname()[1], flush=True)
one.accept()
print("a client came", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", stolen], stdout=subprocess.PIPE,
                          text=True) as thief:
        assert thief.stdout is not None
        port = int(thief.stdout.readline())
        url = f"grpc://127.0.0.1:{port}/clicks"
        try:
            with pytest.raises(DataError, match="another user listens") as refused:
                Client(url, {"token": served.token}).act("last", app="etl")
        finally:
            thief.terminate()
        assert "65534" in refused.value.why
        assert thief.stdout.read() == ""


def test_a_disk_that_fills_up_is_told_as_a_receiver_that_is_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("paceline.receiver.inbox.Inbox.stage", full)
    with pytest.raises(pyarrow.flight.FlightUnavailableError, match="disk is full"):
        served.sink().write("1", "0", "0", [batch(range(4))])


def test_a_url_with_an_impossible_port_is_refused() -> None:
    with pytest.raises(DataError, match="no stream of a receiver"):
        Client("grpc://127.0.0.1:99999/clicks", {"token": "x" * 20})
