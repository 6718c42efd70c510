"""What a worker reads at a time of the samples that it has leased."""

from dataclasses import dataclass


@dataclass(slots=True)
class Piece:
    """Consecutive ordinals of one lease and one epoch, read together."""

    lease: int
    begin: int
    end: int
