"""History, then live: the samples of a data set first, and a stream when none of them is free.

    data = Then(ElasticDataset(history, seed=7), Stream("kafka://host:9092/clicks", decode=parse))
    for batch in LeasedLoader(data, batch=4096, wait=1.0):
        train(batch)
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from paceline._data.live import LiveLoader
from paceline._data.loader import must_be_ordered
from paceline._data.order import Json, Ordered
from paceline._data.stream import Stream, refuse_collate, refuse_options
from paceline.errors import ArgumentError, DataError

SCHEMA = "paceline.then/1"
_IDLE_SECONDS = 0.5  # without live records, until the history is asked again


class Then:
    """`history` (an ElasticDataset or ElasticMixture) and the stream that follows it."""

    def __init__(self, history: Ordered, live: Stream) -> None:
        must_be_ordered("Then", history)
        if not isinstance(live, Stream):
            raise ArgumentError(
                what="the second part is no stream",
                where="Then",
                why=f"it is a {type(live).__name__}",
                fix='Then(history, Stream("kafka://host:9092/clicks"))',
            )
        self.history = history
        self.live = live


class History(Protocol):
    """What is needed of a LeasedLoader."""

    def free(self) -> Iterator[Any]: ...
    def done(self) -> None: ...
    def mark(self, step: int) -> None: ...
    def state_dict(self) -> Json: ...
    def load_state_dict(self, state: object) -> None: ...
    def close(self) -> None: ...


class ThenLoader:
    """The loader of `Then`: batches of the history first, then of the live stream.

    History that a dead worker had leased becomes free again, and is read before live records, too.
    """

    marks_checkpoints = True

    def __init__(self, history: History, live: LiveLoader) -> None:
        self.history = history
        self.live = live

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.history.free()
            yield from self.live.soon(_IDLE_SECONDS)

    def done(self) -> None:
        self.history.done()
        self.live.done()

    def mark(self, step: int) -> None:
        self.history.mark(step)
        self.live.mark(step)

    def state_dict(self) -> Json:
        return {
            "schema": SCHEMA,
            "history": self.history.state_dict(),
            "live": self.live.state_dict(),
        }

    def load_state_dict(self, state: object) -> None:
        saved = cast("Json", state) if isinstance(state, dict) else {}
        if saved.get("schema") != SCHEMA:
            raise DataError(
                what="the state is not a position of history and a stream",
                where="load_state_dict",
                why=f"it is not a {SCHEMA}: {str(state)[:80]}",
                fix="restore a checkpoint that was saved with the same data",
            )
        self.history.load_state_dict(saved["history"])
        self.live.load_state_dict(saved["live"])

    def close(self) -> None:
        self.history.close()
        self.live.close()

    def __enter__(self) -> "ThenLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Arguments that only one of the two loaders knows.
OF_HISTORY = ("epochs", "lease", "ahead", "failures", "bad_samples")
_OF_LIVE = ("wait",)

Options = dict[str, Any]


def made_for(
    make: Callable[..., Any],
    data: object,
    options: Options,
    of_live: Callable[[Options], Options] = dict,
) -> Any:
    """The loader of a stream, or of history and a stream; None for a data set of fixed size.

    `make` is the class of the loader of history; `of_live` gives the stream's loader its arguments.
    """
    if isinstance(data, Stream):
        refuse_options(options, OF_HISTORY)
        refuse_collate(data, options)
        return LiveLoader(data, **of_live(options))
    if not isinstance(data, Then):
        return None
    refuse_options(options, ())
    own = {key: value for key, value in options.items() if key not in _OF_LIVE}
    own["name"] = f"{options.get('name') or data.live.name}-history"
    if options.get("resume") == "checkpoint":
        own["uneven"] = True  # workers do not leave the history at one step
    live = {key: value for key, value in options.items() if key not in OF_HISTORY}
    return ThenLoader(make(data.history, **own), LiveLoader(data.live, **of_live(live)))
