"""Topics of Kafka, by confluent-kafka: partitions are assigned, and no consumer group is joined.

The value of a record is what `decode` gets. The position lies in the ledger or in the checkpoint;
nothing is committed to the broker. Only committed records of transactions are read.
"""

import time
from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from paceline._base.once_a_minute import OnceAMinute
from paceline.errors import DataError
from paceline.sources.live import Part, Records, Start

BUFFER_KIB = 64 << 10  # what the client reads ahead, of all partitions together
# While it has read enough ahead of a partition, the client looks so often whether it still has. Its
# own default of a second leaves it without records when a reader takes them within that second.
BACKOFF_MS = 10
# Messages are taken from the client so many at once, and become values at once. More of them would
# not stay in a core's cache, and Python's garbage collector would look at them, so that each would
# cost half as much again.
CHUNK = 512
RECORD_BYTES_MAX = 16 << 20


def open_source(url: str, start: Start, settings: Mapping[str, str]) -> "Kafka":
    return Kafka(url, start, settings)


class Kafka:
    """A topic: `Kafka("kafka://host:9092/clicks", "earliest", {})`."""

    is_eager = True

    def __init__(self, url: str, start: Start, settings: Mapping[str, str]) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise DataError(
                what="Kafka cannot be read",
                where=url,
                why="the package confluent-kafka is not installed",
                fix="pip install 'paceline[kafka]'",
            ) from error
        self._kafka: Any = confluent_kafka
        self._code: Any = confluent_kafka.KafkaError
        parts = urlsplit(url)
        self.topic = parts.path.strip("/")
        self._where = f"the topic {self.topic} at {parts.netloc}"
        if not parts.netloc or not self.topic or "/" in self.topic:
            raise DataError(
                what="the stream's URL names no topic",
                where=url,
                why="it has to have brokers and one topic",
                fix="kafka://host:9092/clicks",
            )
        self._start = start
        self._bases: dict[int, int] = {}
        self._open: dict[int, int] = {}  # partition → the next offset that is expected
        self._names: dict[int, str] = {}
        self._teller = OnceAMinute()
        self._failed: DataError | None = None  # raised by the next poll
        self._ready: list[Records] = []  # of this poll, or of one that was interrupted
        self._is_torn = False  # messages were taken from the client, and are not ready
        # An application's settings first; those that counts depend on cannot be changed.
        self._consumer: Any = confluent_kafka.Consumer({
            "queued.max.messages.kbytes": BUFFER_KIB,
            "fetch.queue.backoff.ms": BACKOFF_MS,
            "log_level": 2,  # a broker that is away is told by `_tell`
            **settings,
            "bootstrap.servers": parts.netloc,
            "group.id": "paceline",  # the client wants one; it is never joined
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "enable.partition.eof": False,
        })

    def partitions(self) -> list[Part]:
        try:
            found = self._consumer.list_topics(self.topic, timeout=2.0).topics[self.topic]
        except self._kafka.KafkaException as error:
            self._tell(error)
            return []
        if found.error is not None:
            if found.error.code() == self._code.UNKNOWN_TOPIC_OR_PART:
                raise self._gone()
            self._tell(found.error)
            return []
        is_first = not self._bases
        added: dict[int, int] = {}
        for number in sorted(found.partitions):
            if number in self._bases:
                continue
            try:
                added[number] = self._base(number, is_first=is_first)
            except self._kafka.KafkaException as error:
                self._tell(error)
                return []  # the next look is as much the first one as this
        self._bases |= added
        return [Part(str(number), base) for number, base in sorted(self._bases.items())]

    def open(self, name: str, offset: int) -> int:
        number = int(name)
        at = self._kafka.TopicPartition(self.topic, number, offset)
        first = offset
        try:
            low, high = self._consumer.get_watermark_offsets(at, timeout=5.0)
            first = max(offset, low)
            if offset > high:
                raise self._made_anew(name, offset, high)
        except self._kafka.KafkaException as error:
            self._tell(error)  # the fetch tells whether the offset exists
        self._open[number] = first
        self._names[number] = name
        self._consumer.incremental_assign(
            [self._kafka.TopicPartition(self.topic, number, first)])
        return first

    def poll(self, most: int, seconds: float) -> list[Records]:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        if not self._open:
            time.sleep(seconds)
            return []
        if self._is_torn:
            self._read_again()
        until = time.monotonic() + seconds
        while most > 0 and self._failed is None:
            wanted = min(most, CHUNK)
            left = max(until - time.monotonic(), 0.0)
            self._is_torn = True
            messages: list[Any] = self._consumer.consume(wanted, timeout=left)
            if messages:
                self._take(messages)
            self._is_torn = False
            count = len(messages)
            del messages  # before the next ones are made: twice as many would wake the collector
            most -= count
            if count < wanted:
                break
        found, self._ready = self._ready, []
        return found

    def _read_again(self) -> None:
        """A poll was interrupted: the client gives again what it has given to that one."""
        for number, offset in self._open.items():
            at = self._kafka.TopicPartition(self.topic, number, offset)
            self._consumer.incremental_unassign([at])
            self._consumer.incremental_assign([at])
        self._is_torn = False

    def _take(self, messages: list[Any]) -> None:
        # `map` over a method calls it from C. The same calls in a loop of Python took longer than
        # librdkafka's own work.
        kind = type(messages[0])
        if any(map(kind.error, messages)):
            self._take_with_errors(messages)
            return
        is_long = max(map(len, messages)) > RECORD_BYTES_MAX  # of their values
        numbers = list(map(kind.partition, messages))
        if numbers.count(numbers[0]) == len(numbers):
            self._take_run(numbers[0], messages, is_long=is_long)
            return
        end = 0
        for number, same in groupby(numbers):
            begin, end = end, end + len(list(same))
            self._take_run(number, messages[begin:end], is_long=is_long)

    def _take_run(self, number: int, run: list[Any], *, is_long: bool) -> None:
        """Messages of one partition."""
        kind = type(run[0])
        first, last = run[0].offset(), run[-1].offset()
        # librdkafka gives a partition's records by rising offset. So there is no hole if the last
        # offset is as far from the first as the number of records says. The sum of all offsets is
        # compared, too, in case they did not rise.
        has_holes = (last - first != len(run) - 1
                     or 2 * sum(map(kind.offset, run)) != (first + last) * len(run))
        if has_holes or is_long or first < self._open.get(number, 1 << 63):
            for message in run:
                self._take_one(number, message.offset(), message.value())
            return
        self._add(number, first, list(map(kind.value, run)))

    def _take_one(self, number: int, offset: int, value: bytes | None) -> None:
        if offset < self._open.get(number, 1 << 63):
            return  # from before a seek
        why = ""
        if value is not None and len(value) > RECORD_BYTES_MAX:
            why = f"the record has {len(value)} bytes, more than 16 MiB"
        self._add(number, offset, [value], why)

    def _add(self, number: int, offset: int, values: list[Any], refusal: str = "") -> None:
        name, after = self._names[number], offset + len(values)
        last = self._ready[-1] if self._ready and not refusal else None
        # A signal's handler may raise where a function is called. None is called between the two
        # lines of a branch, so both are done or none.
        if (last is not None and last.partition == name and not last.refusal and not last.is_gap
                and offset == last.offset + len(last.values)):
            joined = last.values
            self._open[number] = after
            joined += values
        else:
            records = Records(name, offset, values, refusal=refusal)
            self._open[number] = after
            self._ready += [records]

    def _take_with_errors(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._take_one(message.partition(), message.offset(), message.value())
                continue
            try:
                self._ready += self._take_error(message, error)
            except DataError as failure:
                self._failed = failure  # the records before it count

    def end(self, name: str) -> int | None:
        at = self._kafka.TopicPartition(self.topic, int(name))
        high = self._consumer.get_watermark_offsets(at, cached=True)
        return high[1] if high is not None and high[1] >= 0 else None

    def close(self, name: str | None = None) -> None:
        if name is None:
            self._open.clear()
            self._ready.clear()
            self._consumer.close()
            return
        # What an interrupted poll has left of it: it may be opened again before these records.
        self._ready = [one for one in self._ready if one.partition != name]
        self._stop(int(name))

    def _stop(self, number: int) -> None:
        if self._open.pop(number, None) is not None:
            self._consumer.incremental_unassign([self._kafka.TopicPartition(self.topic, number)])

    def _base(self, number: int, *, is_first: bool) -> int:
        at = self._kafka.TopicPartition(self.topic, number)
        low, high = self._consumer.get_watermark_offsets(at, timeout=5.0)
        # A partition that was added later is read from its beginning.
        if self._start == "earliest" or not is_first:
            return low
        if isinstance(self._start, datetime):
            at.offset = int(self._start.timestamp() * 1000)
            [found] = self._consumer.offsets_for_times([at], timeout=5.0)
            return found.offset if found.offset >= 0 else high
        return high

    def _take_error(self, message: Any, error: Any) -> list[Records]:
        """Returns the gap, if retention was faster than this reader."""
        code = error.code()
        if code == self._code._AUTO_OFFSET_RESET:
            # Retention was faster than this reader, or the topic was made anew.
            name = str(message.partition())
            wanted = self._open.get(int(name))
            if wanted is not None:
                self._stop(int(name))  # what this poll has of it stays
                at = self.open(name, wanted)
                return [Records(name, at, [], is_gap=True)] if at > wanted else []
        elif code in (self._code.UNKNOWN_TOPIC_OR_PART, self._code._UNKNOWN_PARTITION):
            raise self._gone()
        elif code in (self._code.TOPIC_AUTHORIZATION_FAILED, self._code._AUTHENTICATION):
            raise DataError(
                what="the broker refuses this reader",
                where=self._where,
                why=str(error.str()),
                fix='secrets="kafka.toml" with the settings of an account that may read the topic',
            )
        else:
            self._tell(error)
        return []

    def _tell(self, error: object) -> None:
        """A failure that may pass."""
        self._teller.tell("%s does not answer; waiting for it: %s", self._where, error)

    def _gone(self) -> DataError:
        return DataError(
            what="the topic is not there",
            where=self._where,
            why="the broker does not know it: it was deleted, or never made",
            fix="make the topic, or correct the stream's URL",
        )

    def _made_anew(self, name: str, offset: int, high: int) -> DataError:
        return DataError(
            what="the topic has fewer records than were read from it",
            where=f"{self._where}, partition {name}",
            why=f"the position is offset {offset}, and the newest record is before {high}: the "
            "topic was deleted and made anew, so its offsets mean other records",
            fix="another name= for the new topic's stream, so that it begins anew",
            is_final=True,
        )
