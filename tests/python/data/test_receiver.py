"""The receiver: parts become visible by one commit, exactly once. Clients are plain pyarrow.flight.

The protocol is in docs/formats/sink.md. tests/sinks has real Ray and Spark.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.flight
import pytest
from paceline.receiver.__main__ import is_loopback, main
from paceline.receiver.inbox import Inbox
from paceline.receiver.names import Receipt
from paceline.receiver.refusal import Refusal, parsed
from paceline.receiver.row_digest import added, digest_of
from paceline.receiver.server import Receiver
from paceline.sources.flight import Flight
from receivers import Served, batch, read, write

from paceline.data import DataError, LeasedLoader


def test_rows_are_seen_after_the_commit_and_once(served: Served) -> None:
    sink = served.sink()
    with LeasedLoader(served.stream(), batch=64, wait=0.1) as loader:
        receipts = write(sink, "1", range(5000))
        assert list(loader.soon(0.3)) == []
        assert sink.last() is None
        assert sink.commit("1", receipts)
        assert not sink.commit("1", receipts)
        assert sink.last() == "1"
        assert Counter(read(loader, 5000)) == dict.fromkeys(range(5000), 1)
        sink.commit("2", write(sink, "2", range(5000, 5100)))
        assert sorted(read(loader, 100)) == list(range(5000, 5100))


def test_an_epoch_that_is_repeated_is_kept_once_however_it_is_cut(served: Served) -> None:
    sink = served.sink()
    assert sink.commit("1", write(sink, "1", range(3000)))
    files = served.files()
    assert not sink.commit("1", write(sink, "1", range(2999, -1, -1), writers=7, attempt="1"))
    assert served.files() == files  # the copies are removed
    with pytest.raises(Refusal, match="committed with other content") as refused:
        sink.commit("1", write(sink, "1", range(1, 3001), attempt="2"))
    assert refused.value.code == "PL-E223"
    with pytest.raises(Refusal, match="3000 rows, and 2999 were sent now"):
        sink.commit("1", write(sink, "1", range(2999), attempt="3"))
    with LeasedLoader(served.stream(), batch=64, wait=0.1) as loader:
        assert Counter(read(loader, 3000)) == dict.fromkeys(range(3000), 1)
        assert list(loader.soon(0.3)) == []


def test_attempts_that_the_commit_does_not_list_are_removed(served: Served) -> None:
    sink = served.sink()
    write(sink, "1", range(100), writers=2, attempt="failed")
    receipts = write(sink, "1", range(100), writers=2, attempt="good")
    assert len(served.files()) == 4
    sink.commit("1", receipts)
    assert len(served.files()) == 2
    write(sink, "2", range(100), writers=2)
    assert sink.abort("2") == 2
    assert len(served.files()) == 2
    with pytest.raises(Refusal, match="a part of the epoch is not there"):
        sink.commit("2", [Receipt("0", "0", 50, "0" * 32)])
    assert sink.last() == "1"


def test_parts_that_were_sent_before_their_epoch_had_a_number(served: Served) -> None:
    """As Flink's writers do: each part under a name of its own, then one commit for all."""
    sink = served.sink()
    receipts = [replace(one, epoch=name) for name, values in (
        ("a", range(100)), ("b", range(100, 150))) for one in write(sink, name, values, writers=1)]
    write(sink, "c", range(150, 200), writers=1)  # of the next epoch
    write(sink, "a", range(50), writers=1, attempt="other")
    assert sink.commit("7", receipts)
    assert not sink.commit("7", receipts)
    again = [replace(one, epoch="d") for one in write(sink, "d", range(150), writers=1)]
    assert not sink.commit("7", again)
    assert len(served.files()) == 4  # two of epoch 7, and two that no commit has named
    with pytest.raises(Refusal, match="a part of the epoch is not there"):
        sink.commit("8", [replace(again[0], epoch="c")])
    with pytest.raises(Refusal, match="a writer is listed twice"):
        sink.commit("8", [receipts[0], receipts[0]])
    with LeasedLoader(served.stream(), batch=64, wait=0.1) as loader:
        assert Counter(read(loader, 150)) == dict.fromkeys(range(150), 1)
        assert list(loader.soon(0.3)) == []


def test_an_epoch_that_follows_another_one_than_the_newest_is_refused(served: Served) -> None:
    """Two processes that read one source as one app would write its records twice."""
    sink = served.sink()
    one = [write(sink, name, values, writers=1) for name, values in (
        ("1", range(10)), ("2", range(10, 20)), ("3", range(10, 30)))]
    assert sink.commit("1", one[0], after="")
    assert sink.commit("2", one[1], after="1")
    assert not sink.commit("2", one[1], after="1")  # its answer was lost
    for after in ("1", ""):
        with pytest.raises(Refusal, match="another process has written") as refused:
            sink.commit("3", one[2], after=after)
        assert refused.value.code == "PL-E335"
    assert sink.last() == "2"


def test_what_was_confirmed_outlives_the_receiver(serve: Callable[..., Served]) -> None:
    served = serve()
    sink = served.sink()
    sink.commit("1", write(sink, "1", range(1000)))
    receipts = write(sink, "2", range(1000, 2000))
    (served.folder / "parts" / "clicks" / f".{'0' * 24}.arrow.tmp").write_bytes(b"half a part")
    served = serve()
    assert served.sink().commit("2", receipts)
    assert not any(name.startswith(".") for name in served.files())
    stream = served.stream()
    with LeasedLoader(stream, batch=50, wait=0.1, resume="checkpoint") as loader:
        before = read(loader, 700)
        loader.mark(1)
        state = loader.state_dict()
        after = read(loader, 2000 - len(before))
        loader.load_state_dict(state)
        assert sorted(read(loader, 2000 - len(before))) == sorted(after)
    assert Counter(before + after) == dict.fromkeys(range(2000), 1)


def test_the_latest_start_and_rows_that_were_removed(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    sink = served.sink()
    sink.commit("1", write(sink, "1", range(300)))
    with LeasedLoader(served.stream(start="latest"), batch=10, wait=0.1) as loader:
        loader._look()  # finds the partitions
        sink.commit("2", write(sink, "2", range(300, 330)))
        assert sorted(read(loader, 30)) == list(range(300, 330))
    assert served.inbox.expire(-10) == 8
    sink.commit("3", write(sink, "3", range(330, 360)))
    ends = served.inbox.ends("clicks")
    assert sum(end for _low, end in ends.values()) == 360
    with LeasedLoader(served.stream(), batch=10, wait=0.1) as loader:
        assert sorted(read(loader, 30)) == list(range(330, 360))
        # Rows that are removed while the loader knows of them are a gap.
        sink.commit("4", write(sink, "4", range(360, 420)))
        loader._look()
        served.inbox.expire(-10)
        sink.commit("5", write(sink, "5", range(420, 450)))
        with caplog.at_level(logging.WARNING):
            assert sorted(read(loader, 30)) == list(range(420, 450))
    assert "retention has eaten offsets" in caplog.text


@pytest.mark.parametrize(("command", "why"), [
    ({"stream": "../x"}, "'../x' is not a possible name"),
    ({"writer": ".hidden"}, "is not a possible name"),
    ({"epoch": "a/b"}, "is not a possible name"),
    ({"attempt": "x" * 101}, "is not a possible name"),
    ({"app": ""}, "is not a possible name"),
    ({"app": 7}, "is not a possible name"),
])
def test_names_that_could_be_paths_are_refused(
    served: Served, command: dict[str, Any], why: str
) -> None:
    with pytest.raises(pyarrow.flight.FlightError) as error:
        put(served, {"stream": "clicks", "app": "etl", "epoch": "1", "writer": "0",
                     "attempt": "0", **command}, batch(range(3)))
    found = parsed(str(error.value))
    assert found is not None
    assert why in found.what
    assert os.listdir(served.folder / "parts") == []


def test_calls_without_the_token_are_refused(served: Served) -> None:
    for headers in ([], [(b"authorization", b"Bearer wrong")]):
        client = pyarrow.flight.connect(f"grpc://{served.address}")
        options = pyarrow.flight.FlightCallOptions(headers=headers)
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError):
            list(client.list_flights(b"", options))
        client.close()
    served.secrets.chmod(0o644)
    with pytest.raises(DataError, match="other users can read"):
        served.sink().last()


def test_other_columns_and_columns_without_a_digest_are_refused(served: Served) -> None:
    sink = served.sink()
    sink.commit("1", write(sink, "1", range(10)))
    with pytest.raises(Refusal, match="the columns of the stream have changed") as refused:
        sink.write("2", "0", "0", [pyarrow.record_batch({"click": ["text"]})])
    assert refused.value.why == "it has click int64; the part has click string"
    with pytest.raises(Refusal, match="are not possible"):
        sink.write("2", "0", "0", [pyarrow.record_batch(
            {"click": pyarrow.RunEndEncodedArray.from_arrays([1], [1])})])


def test_a_full_disk_makes_writers_wait(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paceline.receiver.server._FULL_PAUSE_SECONDS", 0.02)
    is_full = threading.Event()
    is_full.set()
    monkeypatch.setattr(served.inbox, "free_bytes", lambda: 0 if is_full.is_set() else 1 << 40)
    receipts: list[Receipt] = []
    writing = threading.Thread(
        target=lambda: receipts.extend(write(served.sink(), "1", range(100), writers=1)))
    with caplog.at_level(logging.WARNING):
        writing.start()
        writing.join(0.5)
        assert receipts == []
        is_full.clear()
        writing.join()
    assert "writers wait until there is room" in caplog.text
    assert served.sink().commit("1", receipts)


def test_plain_flight_clients_find_and_read_the_partitions(served: Served) -> None:
    sink = served.sink()
    sink.commit("1", write(sink, "1", range(90)))
    client = pyarrow.flight.connect(f"grpc://{served.address}")
    options = pyarrow.flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {served.token}".encode())])
    flights = list(client.list_flights(b"clicks", options))
    assert sum(flight.total_records for flight in flights) == 90
    seen: list[int] = []
    for flight in flights:
        reader = client.do_get(flight.endpoints[0].ticket, options)
        seen += reader.read_all()["click"].to_pylist()
    assert sorted(seen) == list(range(90))
    ticket = pyarrow.flight.Ticket(
        json.dumps({"stream": "clicks", "partition": 9, "offset": 0}).encode())
    with pytest.raises(pyarrow.flight.FlightError, match="there is no such partition"):
        client.do_get(ticket, options).read_all()
    client.close()


def test_a_digest_tells_values_nulls_and_places_apart() -> None:
    rows: list[dict[str, Any]] = [
        {"s": "ab" * n if n % 5 else None, "l": list(range(n % 4)), "f": n / 3,
         "d": {"a": n, "b": str(n)}, "b": b"x" * (n * 7), "three": bytes([n, 0, 1]),
         "m": [(str(n), n)] * (n % 3), "t": bool(n % 2), "pair": [n, n + 1]} for n in range(200)]
    first = pyarrow.Table.from_pylist(rows[:1]).schema
    for name, kind in (("three", pyarrow.binary(3)), ("s", pyarrow.string()),
                       ("l", pyarrow.list_(pyarrow.int32())),
                       ("m", pyarrow.map_(pyarrow.string(), pyarrow.int64())),
                       ("pair", pyarrow.list_(pyarrow.int64(), 2))):
        first = first.set(first.get_field_index(name), pyarrow.field(name, kind))
    table = pyarrow.Table.from_pylist(rows, schema=first)
    whole = added(digest_of(one) for one in table.to_batches())
    mixed = table.take(pyarrow.array([n * 77 % 200 for n in range(200)]))
    assert whole == added(digest_of(one) for one in mixed.to_batches(max_chunksize=17))
    assert whole == added(digest_of(table.to_batches()[0].slice(*part))
                          for part in ((0, 50), (50, 1), (51, 149)))
    others = [
        {**rows[7], "s": "ab" * 6}, {**rows[7], "l": [0, 2, 1]}, {**rows[7], "f": None},
        {**rows[7], "d": {"a": 7, "b": "8"}}, {**rows[7], "b": b"x" * 48 + b"y"},
        {**rows[7], "l": None}, {**rows[7], "s": ""}, {**rows[7], "three": bytes([7, 1, 0])},
        {**rows[7], "m": [("7", 8)]}, {**rows[7], "t": False}, {**rows[7], "pair": [8, 7]},
    ]
    for other in others:
        changed = pyarrow.Table.from_pylist([*rows[:7], other, *rows[8:]], schema=table.schema)
        assert added(digest_of(one) for one in changed.to_batches()) != whole, other


def test_an_address_beyond_loopback_needs_tls(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    umask, limits = os.umask(0o022), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert main(["0.0.0.0:0", "--dir", str(tmp_path / "inbox")]) == 2
    finally:  # they are of this process, which has more tests to run
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "error[PL-E221]: the receiver needs TLS" in capfd.readouterr().err
    assert [is_loopback(one) for one in ("127.0.0.1", "[::1]", "localhost", "10.0.0.1", "")] == [
        True, True, True, False, False]


def test_a_read_meets_rows_that_are_removed_meanwhile(served: Served) -> None:
    sink = served.sink()
    for epoch in range(3):
        sink.commit(str(epoch), write(sink, str(epoch), range(30), writers=3))
    reading = served.inbox.read("clicks", 0, 5)
    assert next(reading)["click"].to_pylist() == list(range(15, 30, 3))
    served.inbox.expire(-10)
    with pytest.raises(Refusal, match="these rows were removed") as refused:
        next(reading)
    assert refused.value.code == "PL-E226"
    assert served.inbox.ends("clicks") == {0: (30, 30), 1: (30, 30), 2: (30, 30)}
    assert served.files() == []


def test_parts_that_nobody_commits_are_removed(served: Served) -> None:
    sink = served.sink()
    receipts = write(sink, "1", range(100))
    assert served.inbox.expire_staged() == 0
    assert served.inbox.expire_staged(-10) == 4
    assert served.files() == []
    with pytest.raises(Refusal, match="a part of the epoch is not there"):
        sink.commit("1", receipts)


def test_a_commit_that_is_no_commit_is_refused(served: Served) -> None:
    sink = served.sink()
    for part in ({"writer": "0"}, {"writer": "0", "attempt": "0", "rows": 1, "digest": "none"},
                 {"writer": "0", "attempt": "0", "rows": [], "digest": "0"}):
        with pytest.raises(Refusal, match="the body of the call is not possible"):
            sink._connect().act("commit", stream="clicks", app="etl", epoch="1", parts=[part])


def test_a_poll_that_is_interrupted_loses_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = served.sink()
    sink.commit("1", write(sink, "1", range(900), writers=3))
    source = Flight(f"flight://{served.address}/clicks", "earliest", {"token": served.token})
    for part in source.partitions():
        source.open(part.name, part.base)
    fetch, calls = source._fetch, count()

    def interrupted(partition: int) -> Any:
        rows = fetch(partition)
        if next(calls) in (1, 4, 5, 9, 13):
            raise KeyboardInterrupt
        return rows

    monkeypatch.setattr(source, "_fetch", interrupted)
    offsets: dict[str, int] = dict.fromkeys(("0", "1", "2"), 0)
    seen = 0
    while seen < 900:
        try:
            records = source.poll(40, 0.05)
        except KeyboardInterrupt:
            continue
        for run in records:  # as the loader does: what it has is left out
            assert run.offset <= offsets[run.partition]
            new = max(run.offset + len(run.values) - offsets[run.partition], 0)
            offsets[run.partition] += new
            seen += new
    assert offsets == {"0": 300, "1": 300, "2": 300}
    source.close()


def test_a_folder_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    old = Served(tmp_path / "old")
    old.sink().commit("1", write(old.sink(), "1", range(300)))
    source = Flight(f"flight://{old.address}/clicks", "earliest", {"token": old.token})
    for part in source.partitions():
        source.open(part.name, part.base)
    while not source.poll(300, 0.1):
        pass
    old.end()
    new = Inbox(str(tmp_path / "new"))
    server = Receiver(f"grpc://{old.address}", new, old.token)
    with pytest.raises(DataError, match="fewer rows than were read"):
        for _ in range(1000):
            source.poll(300, 0.1)
    source.close()
    server.end()
    new.close()


def test_two_receivers_of_one_folder_are_refused(served: Served) -> None:
    with pytest.raises(Refusal, match="another receiver serves this folder"):
        Inbox(str(served.folder))


def put(served: Served, command: dict[str, Any], one: Any) -> None:
    client = pyarrow.flight.connect(f"grpc://{served.address}")
    options = pyarrow.flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {served.token}".encode())])
    writer, _answers = client.do_put(
        pyarrow.flight.FlightDescriptor.for_command(json.dumps(command).encode()), one.schema,
        options)
    try:
        writer.write_batch(one)
        writer.done_writing()
    finally:
        writer.close()
        client.close()
