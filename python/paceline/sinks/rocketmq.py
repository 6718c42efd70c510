"""RocketMQ writes into a training job: each message of a topic becomes a row, exactly once.

    $ python -m paceline.sinks.rocketmq rocketmq://proxy:8081/clicks \\
        grpc://127.0.0.1:8815/clicks --secrets inbox/token.toml

RocketMQ's client acknowledges messages and has no offsets, so the messages go through a receiver.
It stores the rows of a batch and the ids of its messages in one transaction; then the messages
are acknowledged. A message whose acknowledgement was lost is sent again, and its id is known. The
receiver keeps ids for 7 days.

Messages become rows in the order in which they come, which is not that of the topic.
"""

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from paceline._base.once_a_minute import OnceAMinute
from paceline.errors import DataError
from paceline.receiver.record_ids import IDS_MAX
from paceline.receiver.refusal import Refusal
from paceline.sinks.writer import Sink
from paceline.sources.secrets import read_secrets

BYTES_MAX = 64 << 20  # of an epoch
RECEIVED_MAX = 32  # messages of one call; a proxy gives no more
HIDDEN_SECONDS = 120  # then a message that was not acknowledged is sent again
_CALLS = 4  # at the same time; each is about one queue of the topic
_POLL_SECONDS = 5  # for which a call without messages waits; a proxy takes no less
_PAUSE_SECONDS = 1.0  # before what has failed is tried again
_KNOWN_ALREADY = "PL-E336"


class Topic:
    """The messages of one topic, from RocketMQ to the sink.

    Args:
        consumer: a SimpleConsumer of the topic, started.
        every: seconds between two commits.
    """

    def __init__(self, consumer: Any, sink: Sink, every: float) -> None:
        self._consumer = consumer
        self._sink = sink
        self._every = every
        self._teller = OnceAMinute()
        self._calls: set[Future[list[Any]]] = set()

    def run(self) -> None:
        """Brings messages for ever. After a failure it begins again."""
        import pyarrow

        while True:
            try:
                self.bring()
                continue
            except Refusal as error:
                if error.code != _KNOWN_ALREADY:  # another process has committed the same messages
                    raise
                self._tell(error)
            except pyarrow.ArrowException as error:  # Flight's errors are Arrow's
                self._tell(error)
            time.sleep(_PAUSE_SECONDS)

    def bring(self) -> None:
        """One epoch. What it does not commit is sent again after HIDDEN_SECONDS."""
        # While the receiver is away, no message is taken: after some tries a broker gives it up.
        self._sink.last()
        messages = {one.message_id: one for one in self._gather()}
        if not messages:
            return
        known = self._sink.known(list(messages))
        new = [one for name, one in messages.items() if name not in known]
        if new:
            epoch = uuid.uuid4().hex
            receipt = self._sink.write(epoch, "0", "0", [_batch_of(new)])
            self._sink.commit(epoch, [receipt], ids=[one.message_id for one in new])
        for one in messages.values():
            self._acknowledge(one)

    def _gather(self) -> list[Any]:
        messages: list[Any] = []
        size = 0
        until = time.monotonic() + self._every
        most = IDS_MAX - _CALLS * RECEIVED_MAX
        while len(messages) < most and size < BYTES_MAX and time.monotonic() < until:
            self._ask()
            done, self._calls = wait_for(
                self._calls, max(0.0, until - time.monotonic()), "FIRST_COMPLETED")
            for call in done:
                try:
                    found = call.result()
                except Exception as error:  # the client raises many kinds
                    self._tell(error)
                    time.sleep(_PAUSE_SECONDS)
                    continue
                sound = [one for one in found if not one.corrupted]
                if len(sound) < len(found):
                    self._tell("a message came with a wrong checksum, and is asked for again")
                messages += sound
                size += sum(len(one.body) for one in sound)
        return messages

    def _ask(self) -> None:
        while len(self._calls) < _CALLS:
            try:
                self._calls.add(self._consumer.receive_async(RECEIVED_MAX, HIDDEN_SECONDS))
            except Exception as error:  # nobody says where the topic's queues are
                self._tell(error)
                time.sleep(_PAUSE_SECONDS)
                return

    def _acknowledge(self, message: Any) -> None:
        try:
            self._consumer.ack(message)
        except Exception as error:  # it is sent again, and its id is known
            self._tell(error)

    def _tell(self, error: object) -> None:
        self._teller.tell("RocketMQ: %s; trying again", str(error).partition("\n")[0])


def _batch_of(messages: list[Any]) -> Any:
    import pyarrow

    return pyarrow.record_batch({
        "value": pyarrow.array([bytes(one.body) for one in messages], pyarrow.binary()),
        "id": pyarrow.array([one.message_id for one in messages], pyarrow.string()),
        "tag": pyarrow.array([one.tag or "" for one in messages], pyarrow.string()),
        "keys": pyarrow.array([sorted(one.keys) for one in messages],
                              pyarrow.list_(pyarrow.string())),
        "born_ms": pyarrow.array([int(one.born_timestamp) for one in messages], pyarrow.int64()),
    })


@contextmanager
def _home_elsewhere() -> Iterator[None]:
    """The client makes ~/logs/rocketmq_python when it is imported, and writes its log there."""
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory(prefix="paceline-rocketmq-") as folder:
        os.environ["HOME"] = folder
        try:
            yield
            log = logging.getLogger("rocketmq-python-client")
            for handler in list(log.handlers):
                log.removeHandler(handler)
                handler.close()
            log.addHandler(logging.NullHandler())
        finally:
            if before is None:
                os.environ.pop("HOME", None)
            else:
                os.environ["HOME"] = before


def connect(url: str, group: str, secrets: str | os.PathLike[str] | None) -> tuple[Any, str]:
    """A consumer that has started, and the topic's name."""
    parts = urlsplit(url)
    topic = parts.path.strip("/")
    if parts.scheme != "rocketmq" or not parts.netloc or "@" in parts.netloc or (
            not topic or "/" in topic):
        raise DataError(
            what="the URL names no topic of RocketMQ", where=f"{parts.scheme}://{parts.hostname}",
            why="it has to have a proxy and one topic, and no password",
            fix="rocketmq://proxy:8081/clicks")
    try:
        with _home_elsewhere():
            rocketmq: Any = importlib.import_module("rocketmq")
    except ImportError as error:
        raise DataError(
            what="RocketMQ cannot be read", where=url,
            why="the package rocketmq-python-client is not installed",
            fix="pip install 'paceline[rocketmq]'") from error
    given = {} if secrets is None else read_secrets(secrets)
    credentials = rocketmq.Credentials(given.get("access", ""), given.get("secret", ""))
    settings = rocketmq.ClientConfiguration(
        parts.netloc, credentials, given.get("namespace", ""))
    consumer = rocketmq.SimpleConsumer(
        settings, group, {topic: rocketmq.FilterExpression()}, _POLL_SECONDS,
        tls_enable=given.get("tls") == "true")
    return consumer, topic


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m paceline.sinks.rocketmq")
    parser.add_argument("topic", help="rocketmq://PROXY:PORT/TOPIC")
    parser.add_argument("stream", help="grpc://HOST:PORT/STREAM of `paceline receive`")
    parser.add_argument("--secrets", help="the receiver's token.toml; else PACELINE_SINK_TOKEN")
    parser.add_argument(
        "--rocketmq-secrets",
        help='TOML of mode 0600: "access" = "…", "secret" = "…", "namespace" = "…", "tls" = "true"')
    parser.add_argument("--group", default="paceline", help="the consumer group")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two commits")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s")
    teller = OnceAMinute()
    try:
        consumer, topic = connect(given.topic, given.group, given.rocketmq_secrets)
        while True:
            try:
                consumer.startup()
                break
            except Exception as error:  # no proxy, or no such topic yet
                teller.tell("%s does not answer: %s; trying again", given.topic, error)
                time.sleep(_PAUSE_SECONDS)
                consumer, topic = connect(given.topic, given.group, given.rocketmq_secrets)
        sink = Sink(given.stream, app=f"rocketmq-{topic}", secrets=given.secrets)
        print(json.dumps({"reads": topic}), flush=True)
        try:
            Topic(consumer, sink, given.every).run()
        finally:
            with suppress(Exception):
                consumer.shutdown()
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the client's threads may be anywhere
