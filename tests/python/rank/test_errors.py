"""The public errors: one family, and the names under which scripts know them."""

import paceline.errors as errors
import paceline.numpy as pl
import pytest

import paceline.data as data


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_paceline_error_with_four_parts(name: str) -> None:
    kind = getattr(errors, name)
    error = kind(what="no room", where="/dev/shm", why="it is full", fix="remount it")
    assert isinstance(error, errors.PacelineError)
    assert str(error).splitlines() == [
        "no room", "  where  /dev/shm", "  why    it is full", "  fix    remount it",
    ]  # fmt: skip
    assert kind.__module__ == "paceline.errors"  # what a traceback prints


def test_public_modules_export_the_same_classes() -> None:
    assert pl.CheckpointError is errors.CheckpointError
    assert pl.ArgumentError is errors.ArgumentError
    assert data.DataError is errors.DataError
    assert issubclass(errors.ArgumentError, ValueError)
    assert issubclass(errors.ArgumentError, TypeError)
