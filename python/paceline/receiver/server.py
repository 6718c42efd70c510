"""The Flight calls of the receiver. What they mean: docs/formats/sink.md."""

import errno
import hmac
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow
import pyarrow.flight

from paceline._base.once_a_minute import OnceAMinute
from paceline.receiver.inbox import Inbox
from paceline.receiver.names import PartName, Receipt, checked_name
from paceline.receiver.record_ids import ID_CHARACTERS_MAX, IDS_MAX
from paceline.receiver.refusal import Refusal

BODY_BYTES_MAX = 16 << 20
PARTS_MAX = 100_000  # of one commit
_FULL_PAUSE_SECONDS = 1.0

Json = dict[str, Any]


class Receiver(pyarrow.flight.FlightServerBase):
    """Serves `inbox` at `location` until `shutdown`."""

    def __init__(
        self, location: str, inbox: Inbox, token: str, *, free_bytes: int = 1 << 30,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        options: Json = {"middleware": {"token": _TokenCheck(token)}}
        if certificate is not None:
            options["tls_certificates"] = [certificate]
        super().__init__(location, **options)
        self._inbox = inbox
        self._location = location
        self._free_bytes = free_bytes
        self._teller = OnceAMinute()
        self._ends = threading.Event()
        self._actions: dict[str, Callable[[Json], Json]] = {
            "commit": self._commit, "abort": self._abort, "last": self._last,
            "ends": self._ends_of, "known": self._known,
        }

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _told():
            asked = _fields(descriptor.command or b"")
            name = PartName(*(asked.get(one, "") for one in (
                "stream", "app", "epoch", "writer", "attempt")))
            part = self._inbox.begin(name, reader.schema)
            try:
                while True:
                    self._wait_for_room(context)
                    try:
                        chunk = reader.read_chunk()
                    except StopIteration:
                        break
                    if chunk.data is not None:
                        part.add(chunk.data)
                # A writer that was killed ends its stream without an error of the reader.
                if context.is_cancelled():
                    raise ConnectionAbortedError("the writer has gone")
                receipt = self._inbox.stage(name, part)
            except BaseException:
                part.discard()
                raise
            answer = {"rows": receipt.rows, "digest": receipt.digest}
            writer.write(pyarrow.py_buffer(json.dumps(answer).encode()))

    def do_action(self, context: Any, action: Any) -> Any:
        with _told():
            handler = self._actions.get(action.type)
            if handler is None:
                raise Refusal(
                    what="there is no such action", where=f"DoAction {action.type[:100]}",
                    why=f"the actions are {', '.join(self._actions)}", fix="docs/formats/sink.md")
            body = b"" if action.body is None else action.body.to_pybytes()
            return [pyarrow.flight.Result(json.dumps(handler(_fields(body))).encode())]

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [(one, "docs/formats/sink.md") for one in self._actions]

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        with _told():
            wanted = criteria.decode()
            for stream in [checked_name("stream", wanted)] if wanted else self._inbox.streams():
                for partition in sorted(self._inbox.ends(stream)):
                    yield self._flight(stream, partition)

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        with _told():
            path = [one.decode() for one in descriptor.path or []]
            if len(path) != 2 or not path[1].isdecimal():
                raise _no_partition(path)
            return self._flight(checked_name("stream", path[0]), int(path[1]))

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _told():
            asked = _fields(ticket.ticket)
            stream = checked_name("stream", asked.get("stream"))
            partition, offset = asked.get("partition"), asked.get("offset")
            schema = self._inbox.schema(stream)
            if (schema is None or not isinstance(offset, int) or offset < 0
                    or not isinstance(partition, int)
                    or partition not in self._inbox.ends(stream)):
                raise _no_partition([stream, partition, offset])
            batches = self._inbox.read(stream, partition, offset)
            first = next(batches, None)  # so that a refusal is the answer of this call
            return pyarrow.flight.GeneratorStream(schema, _with_first(first, batches))

    def end(self) -> None:
        """Stop waiting for room, and serve no more."""
        self._ends.set()
        self.shutdown()

    # ---- actions ----

    def _commit(self, asked: Json) -> Json:
        listed = asked.get("parts")
        if not isinstance(listed, list) or len(listed) > PARTS_MAX:
            raise _bad_body(f"`parts` is no list of at most {PARTS_MAX}")
        receipts: list[Receipt] = []
        for one in cast("list[Any]", listed):
            try:
                receipts.append(Receipt(
                    str(one["writer"]), str(one["attempt"]), int(one["rows"]), str(one["digest"]),
                    str(one.get("epoch") or "")))
                int(receipts[-1].digest, 16)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise _bad_body(f"a part of the commit is not possible: {error!r}") from None
        after = asked.get("after")
        ids = _ids_of(asked) if "ids" in asked else None
        is_new, rows = self._inbox.commit(
            asked.get("stream", ""), asked.get("app", ""), asked.get("epoch", ""), receipts,
            after=None if after is None else str(after), ids=ids)
        return {"is_new": is_new, "rows": rows}

    def _abort(self, asked: Json) -> Json:
        return {"removed": self._inbox.abort(*(checked_name(one, asked.get(one)) for one in (
            "stream", "app", "epoch")))}

    def _last(self, asked: Json) -> Json:
        found = self._inbox.last(*(checked_name(one, asked.get(one)) for one in ("stream", "app")))
        return {"epoch": None, "rows": 0} if found is None else {"epoch": found[0],
                                                                  "rows": found[1]}

    def _known(self, asked: Json) -> Json:
        stream, app = (checked_name(one, asked.get(one)) for one in ("stream", "app"))
        return {"known": self._inbox.known(stream, app, _ids_of(asked))}

    def _ends_of(self, asked: Json) -> Json:
        ends = self._inbox.ends(checked_name("stream", asked.get("stream")))
        return {"partitions": [{"low": low, "end": end} for _, (low, end) in sorted(ends.items())]}

    # ---- parts of answers ----

    def _flight(self, stream: str, partition: int) -> Any:
        schema, ends = self._inbox.schema(stream), self._inbox.ends(stream)
        if schema is None or partition not in ends:
            raise _no_partition([stream, partition])
        low, end = ends[partition]
        ticket = json.dumps({"stream": stream, "partition": partition, "offset": low}).encode()
        return pyarrow.flight.FlightInfo(
            schema, pyarrow.flight.FlightDescriptor.for_path(stream, str(partition)),
            [pyarrow.flight.FlightEndpoint(ticket, [])], end - low, -1)

    def _wait_for_room(self, context: Any) -> None:
        while (free := self._inbox.free_bytes()) < self._free_bytes:
            self._teller.tell(
                "the disk of %s has %d MiB free, less than %d: writers wait until there is room",
                self._inbox.folder, free >> 20, self._free_bytes >> 20)
            if context.is_cancelled() or self._ends.wait(_FULL_PAUSE_SECONDS):
                raise pyarrow.flight.FlightUnavailableError("the receiver ends, its disk is full")


class _TokenCheck(pyarrow.flight.ServerMiddlewareFactory):
    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}"

    def start_call(self, info: Any, headers: Any) -> None:
        found = [value for key, values in headers.items() if key.lower() == "authorization"
                 for value in values]
        given = found[0] if len(found) == 1 else ""
        text = given.decode("latin-1") if isinstance(given, bytes) else str(given)
        if not hmac.compare_digest(text.encode(), self._wanted.encode()):
            refusal = Refusal(
                what="the receiver refuses this client",
                where="the token of the call",
                why="it is missing or wrong",
                fix='secrets= the file token.toml of the receiver (mode 0600, with "token" = "…")',
                code="PL-E221")
            raise pyarrow.flight.FlightUnauthenticatedError(refusal.line())


class _told:  # noqa: N801  used as a keyword
    """Refusals become Flight errors that clients can read."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Refusal):
            raise pyarrow.flight.FlightServerError(error.line()) from None
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full or (isinstance(error, sqlite3.OperationalError) and "full" in str(error)):
            # For the client as if the receiver were away: it waits, or its task is repeated.
            raise pyarrow.flight.FlightUnavailableError("the receiver's disk is full") from None


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    with _told():
        if first is not None:
            yield first
            yield from rest


def _fields(body: bytes) -> Json:
    if len(body) > BODY_BYTES_MAX:
        raise _bad_body(f"it has {len(body)} bytes, more than {BODY_BYTES_MAX}")
    try:
        found = json.loads(body or b"{}")
    except ValueError as error:
        raise _bad_body(str(error)) from None
    if not isinstance(found, dict):
        raise _bad_body("it is no JSON object")
    return cast("Json", found)


def _ids_of(asked: Json) -> list[str]:
    ids = asked.get("ids")
    if not isinstance(ids, list) or len(cast("list[Any]", ids)) > IDS_MAX or not all(
            isinstance(one, str) and 0 < len(one) <= ID_CHARACTERS_MAX
            for one in cast("list[Any]", ids)):
        raise _bad_body(f"`ids` is no list of at most {IDS_MAX} texts of 1 to {ID_CHARACTERS_MAX} "
                        "characters")
    return cast("list[str]", ids)


def _bad_body(why: str) -> Refusal:
    return Refusal(what="the body of the call is not possible", where="a call of the sink protocol",
                   why=why, fix="docs/formats/sink.md has the fields of each call")


def _no_partition(asked: list[Any]) -> Refusal:
    return Refusal(
        what="there is no such partition",
        where=f"{asked}"[:200],
        why="nothing was committed to this stream yet, or it has fewer partitions",
        fix="ListFlights shows the partitions")
