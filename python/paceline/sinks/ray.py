"""Ray Data writes into a training job.

    ds.write_datasink(PacelineSink("grpc://host:8815/clicks", app="etl", epoch="monday",
                                   secrets="token.toml"))

All rows of the data set become visible at once, when all tasks are done. If the driver dies at any
moment, run it again with the same `epoch`: there is one copy of the rows.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from ray.data import Datasink
from ray.data.block import BlockAccessor

from paceline.sinks.writer import Receipt, Sink


class PacelineSink(Datasink[Receipt]):
    """A Datasink for `Dataset.write_datasink`.

    Args:
        url: grpc://HOST:PORT/STREAM.
        app: the writing program.
        epoch: a name for these rows, unique in the app.
        secrets: the receiver's file token.toml on each node. None: PACELINE_SINK_TOKEN.
    """

    def __init__(
        self, url: str, *, app: str, epoch: str, secrets: str | os.PathLike[str] | None = None
    ) -> None:
        self._sink = Sink(url, app=app, secrets=secrets)
        self._epoch = epoch

    def write(self, blocks: Iterable[Any], ctx: Any) -> Receipt:
        # Ray may run a task again, also while the first one still runs, so each run has a name.
        return self._sink.write(self._epoch, str(ctx.task_idx), uuid.uuid4().hex, _batches(blocks))

    def on_write_complete(self, write_result: Any) -> None:
        self._sink.commit(self._epoch, write_result.write_returns)

    def on_write_failed(self, error: Exception) -> None:
        self._sink.abort(self._epoch)

    def get_name(self) -> str:
        return "Paceline"


def _batches(blocks: Iterable[Any]) -> Iterator[Any]:
    for block in blocks:
        yield from BlockAccessor.for_block(block).to_arrow().to_batches()
