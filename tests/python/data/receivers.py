"""A receiver in the test's process, on a folder that outlives it."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
from paceline.receiver.__main__ import make_token
from paceline.receiver.inbox import Inbox
from paceline.receiver.server import Receiver
from paceline.sinks.writer import Sink

from paceline.data import Stream

_numbers = count()


class Served:
    """A receiver in this process, on a folder that outlives it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.inbox = Inbox(str(folder), partitions=3)
        self.secrets = folder / "token.toml"
        self.token = make_token(str(self.secrets))
        self.server = Receiver("grpc://127.0.0.1:0", self.inbox, self.token, **options)
        self.address = f"127.0.0.1:{self.server.port}"

    def sink(self, app: str = "etl") -> Sink:
        return Sink(f"grpc://{self.address}/clicks", app=app, secrets=self.secrets, patience=0.0)

    def stream(self, **options: Any) -> Stream:
        options = {"decode": lambda row: row["click"], "secrets": self.secrets,
                   "name": f"clicks-{next(_numbers)}", **options}
        return Stream(f"flight://{self.address}/clicks", **options)

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder / "parts" / "clicks"))

    def end(self) -> None:
        self.server.end()
        self.inbox.close()


def batch(values: range) -> Any:
    return pyarrow.record_batch({"click": list(values)})


def write(sink: Sink, epoch: str, values: range, writers: int = 4, attempt: str = "0") -> Any:
    return [sink.write(epoch, str(one), attempt, [batch(values[one::writers])])
            for one in range(writers)]


def read(loader: Any, wanted: int) -> list[int]:
    seen: list[int] = []
    for samples in loader:
        seen += samples
        if len(seen) >= wanted:
            loader.done()
            return seen
    raise AssertionError("a stream has no end")
