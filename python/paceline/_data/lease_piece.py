"""A part of the leased samples, which a worker reads at once."""

from dataclasses import dataclass


@dataclass(slots=True)
class Piece:
    """Consecutive ordinals of one lease and one epoch, read together."""

    lease: int
    begin: int
    end: int
