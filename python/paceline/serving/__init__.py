"""Serving what a training publishes: `Reader` and `Version`. It needs NumPy, and no framework.

    from paceline.serving import Reader

    reader = Reader("runs/ctr/serve")
    version = reader.version()
    scores = version.rows("ads", [17, 4]) @ version.dense("head.weight").T

`paceline.embedding.Publish` writes the versions.
"""

from paceline.serving.reader import Reader, Version

__all__ = ["Reader", "Version"]
