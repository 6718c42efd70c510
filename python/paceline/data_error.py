"""What all modules about data share: their error, and the type of plain values."""

from paceline.problem import PacelineError

Json = dict[str, object]


class DataError(PacelineError):
    """Data that cannot be read as asked, in four parts."""
