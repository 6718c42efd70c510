"""`make test-brokers`: streams of real brokers. Skips loudly where a broker cannot be had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import pulsar_broker  # noqa: E402
import rocketmq_broker  # noqa: E402
from kafka_broker import KafkaBroker, why_not  # noqa: E402


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    if (why := why_not()) is not None:
        pytest.skip(f"KAFKA NOT TESTED: {why}")
    (folder := tmp_path / "kafka").mkdir()
    broker = KafkaBroker(folder)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def rocketmq(tmp_path: Path) -> Iterator[rocketmq_broker.RocketMq]:
    if (why := rocketmq_broker.why_not()) is not None:
        pytest.skip(f"ROCKETMQ NOT TESTED: {why}")
    (folder := tmp_path / "rocketmq").mkdir()
    broker = rocketmq_broker.RocketMq(folder)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def pulsar(tmp_path: Path) -> Iterator[pulsar_broker.Pulsar]:
    if (why := pulsar_broker.why_not()) is not None:
        pytest.skip(f"PULSAR NOT TESTED: {why}")
    (folder := tmp_path / "pulsar").mkdir()
    broker = pulsar_broker.Pulsar(folder)
    broker.start()
    yield broker
    broker.kill()
