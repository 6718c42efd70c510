"""Fixtures of this folder: receivers in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
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
