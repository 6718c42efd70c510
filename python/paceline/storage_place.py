"""Where checkpoints go: a directory that all hosts see, or an object store."""

import importlib.util
import os

from paceline.plan import CheckpointError


def place_of(directory: str) -> str:
    """As the keeper takes it: an absolute path, or `s3://BUCKET/PREFIX`."""
    if not directory.startswith("s3:/"):
        return os.path.abspath(directory)
    # pathlib takes one of the two slashes away.
    directory = "s3://" + directory.removeprefix("s3:").strip("/")
    if importlib.util.find_spec("boto3") is None:
        raise CheckpointError(
            what="checkpoints cannot go to an object store here",
            where=directory,
            why="the package boto3 is not installed",
            fix="pip install 'paceline[s3]'",
        )
    return directory
