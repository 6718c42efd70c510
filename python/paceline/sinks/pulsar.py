"""Pulsar writes into a training job: each message of a topic becomes a row, exactly once.

    $ python -m paceline.sinks.pulsar pulsar://host:6650/clicks grpc://127.0.0.1:8815/clicks \\
        --secrets inbox/token.toml

A position in Pulsar is a ledger, an entry and a place in a batch. They do not fit into an offset of
a stream, and the client has no other number. So the messages go through a receiver. An epoch is
what came in one interval, and its name is the id of its last message. The receiver keeps rows and
name in one transaction, so the next process goes on behind that message. The subscription makes
Pulsar keep what was not read; a message is acknowledged when it is committed.
"""

import argparse
import importlib
import json
import logging
import os
import sys
import threading
import time
import uuid
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from paceline._base.once_a_minute import OnceAMinute
from paceline.errors import DataError
from paceline.receiver.refusal import Refusal
from paceline.sinks.writer import Sink
from paceline.sources.secrets import read_secrets

MESSAGES_MAX = 10_000  # of an epoch
BYTES_MAX = 64 << 20
_PAUSE_SECONDS = 1.0  # before what has failed is tried again
_NOT_THE_NEWEST = "PL-E335"
_LOOK_SECONDS = 10.0  # between two looks for new partitions

Id = tuple[int, int, int]


class Partition:
    """The messages of one partition, from Pulsar to the sink."""

    def __init__(
        self, client: Any, topic: str, subscription: str, sink: Sink, every: float
    ) -> None:
        self._pulsar: Any = importlib.import_module("pulsar")
        self._client = client
        self._topic = topic
        self._subscription = subscription
        self._sink = sink
        self._every = every
        self._teller = OnceAMinute()

    def run(self) -> None:
        """Brings messages until the receiver refuses them. After any other failure it begins again.
        """
        import pyarrow

        while True:
            try:
                self._bring()
            except Refusal as error:
                if error.code != _NOT_THE_NEWEST:  # another process has this topic, too
                    raise
                self._tell(error)
            except (self._pulsar.PulsarException, pyarrow.ArrowException) as error:
                self._tell(error)  # Flight's errors are Arrow's
            time.sleep(_PAUSE_SECONDS)

    def _bring(self) -> None:
        last = self._sink.last()
        newest = (-1, -1, -1) if last is None else _id_of(last)
        consumer = self._client.subscribe(
            self._topic, self._subscription, self._pulsar.ConsumerType.Exclusive,
            initial_position=self._pulsar.InitialPosition.Earliest)
        try:
            if last is not None:
                consumer.seek(self._pulsar.MessageId(-1, *newest))
            while True:
                messages, newest = self._gather(consumer, newest)
                if messages:
                    epoch = ".".join(map(str, newest))
                    receipt = self._sink.write(epoch, "0", uuid.uuid4().hex, [_batch_of(messages)])
                    self._sink.commit(epoch, [receipt], after=last or "")
                    last = epoch
                    consumer.acknowledge_cumulative(messages[-1])
        finally:
            with suppress(self._pulsar.PulsarException):
                consumer.close()

    def _gather(self, consumer: Any, newest: Id) -> tuple[list[Any], Id]:
        """The messages of one epoch, and the id of the last one."""
        messages: list[Any] = []
        size = 0
        until = time.monotonic() + self._every
        while len(messages) < MESSAGES_MAX and size < BYTES_MAX:
            left = max(1, int((until - time.monotonic()) * 1000))
            try:
                message = consumer.receive(timeout_millis=left)
            except self._pulsar.Timeout:
                break
            found = message.message_id()
            here = (found.ledger_id(), found.entry_id(), found.batch_index())
            if here > newest:  # else it is sent again, because its acknowledgement was lost
                newest = here
                messages.append(message)
                size += len(message.data())
            if time.monotonic() >= until:
                break
        return messages, newest

    def _tell(self, error: Exception) -> None:
        self._teller.tell("%s: %s; trying again", self._topic, str(error).partition("\n")[0])


def _batch_of(messages: list[Any]) -> Any:
    import pyarrow

    return pyarrow.record_batch({
        "value": pyarrow.array([one.data() for one in messages], pyarrow.binary()),
        "key": pyarrow.array([one.partition_key() for one in messages], pyarrow.string()),
        "published_ms": pyarrow.array(
            [one.publish_timestamp() for one in messages], pyarrow.int64()),
    })


def connect(url: str, secrets: str | os.PathLike[str] | None) -> tuple[Any, str]:
    """A client, and the topic's name."""
    try:
        pulsar: Any = importlib.import_module("pulsar")
    except ImportError as error:
        raise DataError(
            what="Pulsar cannot be read", where=url,
            why="the package pulsar-client is not installed",
            fix="pip install 'paceline[pulsar]'") from error
    parts = urlsplit(url)
    names = parts.path.strip("/").split("/")
    if parts.scheme not in ("pulsar", "pulsar+ssl") or not parts.netloc or "@" in parts.netloc or (
            not names[-1] or len(names) not in (1, 3)):
        raise DataError(
            what="the URL names no topic of Pulsar", where=f"{parts.scheme}://{parts.hostname}",
            why="it has to have a broker and one topic, and no password",
            fix="pulsar://host:6650/clicks, or pulsar://host:6650/tenant/namespace/clicks")
    given = {} if secrets is None else read_secrets(secrets)
    options: dict[str, Any] = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)}
    if "token" in given:
        options["authentication"] = pulsar.AuthenticationToken(given["token"])
    if "ca" in given:
        options["tls_trust_certs_file_path"] = given["ca"]
    full = names if len(names) == 3 else ["public", "default", names[0]]
    client = pulsar.Client(f"{parts.scheme}://{parts.netloc}", **options)
    return client, f"persistent://{'/'.join(full)}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m paceline.sinks.pulsar")
    parser.add_argument("topic", help="pulsar://HOST:PORT/TOPIC")
    parser.add_argument("stream", help="grpc://HOST:PORT/STREAM of `paceline receive`")
    parser.add_argument("--secrets", help="the receiver's token.toml; else PACELINE_SINK_TOKEN")
    parser.add_argument("--pulsar-secrets", help='TOML of mode 0600: "token" = "…", "ca" = "…"')
    parser.add_argument("--subscription", default="paceline")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two commits")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s")
    failed = threading.Event()
    known: set[str] = set()
    teller = OnceAMinute()
    try:
        client, topic = connect(given.topic, given.pulsar_secrets)
        while not failed.is_set():
            try:
                found = client.get_topic_partitions(topic)
            except Exception as error:
                teller.tell("%s does not answer: %s", topic, error)
                found = []
            for one in sorted(set(found) - known):
                app = "pulsar-" + one.removeprefix("persistent://").replace("/", ".")
                partition = Partition(
                    client, one, given.subscription,
                    Sink(given.stream, app=app, secrets=given.secrets), given.every)
                threading.Thread(target=_run, args=(partition, failed), daemon=True).start()
                known.add(one)
                print(json.dumps({"reads": one}), flush=True)
            failed.wait(_LOOK_SECONDS if known else _PAUSE_SECONDS)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1


def _run(partition: Partition, failed: threading.Event) -> None:
    try:
        partition.run()
    except BaseException as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        failed.set()


def _id_of(epoch: str) -> Id:
    ledger, entry, place = epoch.split(".")
    return int(ledger), int(entry), int(place)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the client's threads may be anywhere
