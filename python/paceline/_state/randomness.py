"""The random numbers of Python and NumPy, as plain values."""

import random
from typing import cast


def python_state() -> list[object]:
    version, words, gauss = random.getstate()
    return [version, b"".join(word.to_bytes(4, "little") for word in words), gauss]


def set_python_state(state: object) -> None:
    version, packed, gauss = cast("tuple[int, bytes, float | None]", state)
    words = tuple(int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4))
    random.setstate((version, words, gauss))


def numpy_state() -> list[object]:
    """The state of NumPy's global generator. Imports NumPy."""
    import numpy

    kind, words, at, has_gauss, gauss = numpy.random.get_state(legacy=True)
    packed = numpy.asarray(words).astype("<u4").tobytes()
    return [str(kind), packed, int(at), int(has_gauss), float(gauss)]


def set_numpy_state(state: object) -> None:
    import numpy

    kind, words, at, has_gauss, gauss = cast("tuple[str, bytes, int, int, float]", state)
    packed = numpy.frombuffer(words, dtype="<u4")
    numpy.random.set_state((kind, packed, at, has_gauss, gauss))
