"""`produce.py pulsar|rocketmq ADDRESS TOPIC BEGIN END`: sends the numbers as messages, each once.

It runs in the environment that has the clients, build/brokers/python.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def to_pulsar(address: str, topic: str, values: range) -> None:
    import pulsar  # pyright: ignore[reportMissingImports]

    client: Any = pulsar.Client(
        f"pulsar://{address}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    sender = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for value in values:
        sender.send_async(str(value).encode(), lambda result, _: None)
    sender.flush()
    client.close()


def to_rocketmq(address: str, topic: str, values: range) -> None:
    import rocketmq  # pyright: ignore[reportMissingImports]  its log is written under $HOME

    settings = rocketmq.ClientConfiguration(address, rocketmq.Credentials(), request_timeout=60)
    while True:
        sender: Any = rocketmq.Producer(settings, [topic], tls_enable=False)
        try:
            sender.startup()
            break
        except Exception as error:  # the broker has not told the name server yet
            print(error, flush=True)
            time.sleep(1)
    for value in values:
        message: Any = rocketmq.Message()
        message.topic = topic
        message.body = str(value).encode()
        sender.send(message)  # not again after an error: it may have been taken


if __name__ == "__main__":
    kind, address, topic, begin, end = sys.argv[1:]
    kinds = {"pulsar": to_pulsar, "rocketmq": to_rocketmq}
    kinds[kind](address, topic, range(int(begin), int(end)))
    sys.stdout.flush()
    os._exit(0)  # the clients' threads may be anywhere
