"""Writes records into a training job's stream: parts, and then all of an epoch at once.

    sink = Sink("grpc://host:8815/clicks", app="etl", secrets="token.toml")
    receipt = sink.write("monday", "0", "1", batches)  # a task: durable, and not visible yet
    sink.commit("monday", [receipt])                   # the driver: visible, exactly once

A commit may be repeated, and so may a whole epoch with the same rows, in any order. Other rows
under a committed epoch are refused. The protocol is in docs/formats/sink.md.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from paceline.receiver.names import Receipt
from paceline.receiver.refusal import Refusal
from paceline.sinks.client import Client
from paceline.sources.secrets import read_secrets

ROWS = 8192  # of a record batch on the wire, at most
_T = TypeVar("_T")


class Sink:
    """A stream to write into. It can be sent to other processes: it has no open connection.

    Args:
        url: grpc://HOST:PORT/STREAM.
        app: the writing program; its epochs are its own.
        secrets: the receiver's file token.toml, readable for each process that writes. None: the
            token is in the environment, PACELINE_SINK_TOKEN.
        patience: seconds for which a receiver that does not answer is waited for.
    """

    def __init__(
        self, url: str, *, app: str, secrets: str | os.PathLike[str] | None = None,
        patience: float = 60.0,
    ) -> None:
        self.url = url
        self.app = app
        self._secrets = None if secrets is None else os.path.abspath(os.fspath(secrets))
        self._patience = patience

    def write(self, epoch: str, writer: str, attempt: str, batches: Iterable[Any]) -> Receipt:
        """Sends the record batches as one part. Returns when the part is durable.

        `batches`: values of type `pyarrow.RecordBatch`; of a table, `table.to_batches()`.

        A receiver that is away is waited for. If it goes away while rows are sent, this raises, and
        the caller's framework repeats its task.
        """
        self.last()
        client = self._connect()
        with client.told():
            stream: Any = None
            answers: Any = None
            for batch in batches:
                if stream is None:
                    command = {"stream": client.stream, "app": self.app, "epoch": epoch,
                               "writer": writer, "attempt": attempt}
                    stream, answers = client.put(command, batch.schema)
                _send(stream, answers, batch)
            if stream is None:
                return Receipt(writer, attempt, 0, "")
            answer = _answer_of(stream, answers)
        client.close()
        return Receipt(writer, attempt, answer["rows"], answer["digest"])

    def commit(
        self, epoch: str, receipts: Iterable[Receipt], *, after: str | None = None,
        ids: list[str] | None = None,
    ) -> bool:
        """Makes the epoch visible. False: it was committed before, with the same rows.

        `after`: a new epoch is refused unless this one is the app's newest; "": it has none.
        `ids`: of its records, at most 10,000. A new epoch is refused (PL-E336) if one of them was
        committed by this app in the last 7 days.
        """
        body: dict[str, Any] = {} if after is None else {"after": after}
        if ids is not None:
            body["ids"] = ids
        parts = [asdict(one) for one in receipts if one.rows]
        return self._patiently(lambda client: client.act(
            "commit", stream=client.stream, app=self.app, epoch=epoch, parts=parts, **body))[
                "is_new"]

    def abort(self, epoch: str) -> int:
        """Removes the parts of the epoch that were not committed."""
        return self._patiently(lambda client: client.act(
            "abort", stream=client.stream, app=self.app, epoch=epoch))["removed"]

    def known(self, ids: list[str]) -> set[str]:
        """Those of the ids whose records this app has committed."""
        return set(self._patiently(lambda client: client.act(
            "known", stream=client.stream, app=self.app, ids=ids))["known"])

    def last(self) -> str | None:
        """The epoch that this app has committed last."""
        return self._patiently(
            lambda client: client.act("last", stream=client.stream, app=self.app))["epoch"]

    def _connect(self) -> Client:
        return Client(self.url, {} if self._secrets is None else read_secrets(self._secrets))

    def _patiently(self, call: Callable[[Client], _T]) -> _T:
        """These calls may be repeated, so a receiver that is away is asked again."""
        until = time.monotonic() + self._patience
        while True:
            client = self._connect()
            try:
                return call(client)
            except (client.flight.FlightUnavailableError, client.flight.FlightTimedOutError):
                if time.monotonic() >= until:
                    raise
                logging.getLogger("paceline").warning("%s does not answer", client.where)
                time.sleep(0.5)
            finally:
                client.close()


def _send(stream: Any, answers: Any, batch: Any) -> None:
    try:
        for begin in range(0, batch.num_rows, ROWS):
            stream.write_batch(batch.slice(begin, ROWS))
    except Exception:
        # The receiver has ended the call; closing raises its reason.
        stream.close()
        raise


def _answer_of(stream: Any, answers: Any) -> dict[str, Any]:
    stream.done_writing()
    found = answers.read()
    stream.close()  # raises what the receiver refused
    if found is None:
        raise Refusal(
            what="the receiver has not confirmed the part",
            where="the end of DoPut",
            why="it ended the call without an answer",
            fix="write the part again",
            code="PL-E224")
    return json.loads(found.to_pybytes())
