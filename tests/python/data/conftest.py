"""Fixtures of this folder: receivers and brokers in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_broker import Broker
from receivers import Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def make(**options: Any) -> Served:
        for one in made:
            one.end()
        made[:] = [Served(tmp_path / "inbox", **options)]
        return made[0]

    yield make
    made[0].end()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.fixture(scope="module")
def cluster() -> Broker:
    return Broker()


@pytest.fixture
def broker(cluster: Broker, request: pytest.FixtureRequest) -> tuple[Broker, str]:
    """And a topic of the test's own."""
    return cluster, f"topic-{abs(hash(request.node.name))}"
