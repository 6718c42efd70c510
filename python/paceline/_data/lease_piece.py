"""What a worker reads at a time of the samples that it has leased."""

from dataclasses import dataclass


@dataclass(slots=True)
class Piece:
    """Neighbouring ordinals of one lease, read together: all of one epoch."""

    lease: int
    begin: int
    end: int
