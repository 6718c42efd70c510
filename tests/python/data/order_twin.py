"""docs/formats/data_order.md written down once more, slowly, by its words alone."""

from math import isqrt

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def permutation(count: int, seed: int, epoch: int, stream: int) -> list[int]:
    return [forward(place, count, seed, epoch, stream) for place in range(count)]


def forward(place: int, count: int, seed: int, epoch: int, stream: int) -> int:
    columns = isqrt(count - 1) + 1
    columns += columns % 2
    rows = -(-count // columns)
    state = 0
    for word in (seed, epoch, stream):
        state = mix(((state ^ word) + GOLDEN) & MASK)
    keys: list[int] = []
    rounds = 24 if count <= 65536 else 8
    for _ in range(rounds):
        state = (state + GOLDEN) & MASK
        keys.append(mix(state))
    at = place
    while True:
        row, column = divmod(at, columns)
        for i in range(0, rounds, 2):
            column = (column + (mix((row + keys[i]) & MASK) * columns >> 64)) % columns
            row = (row + (mix((column + keys[i + 1]) & MASK) * rows >> 64)) % rows
        at = row * columns + column
        if at < count:
            return at


def blocked(count: int, seed: int, epoch: int, block: int, window: int) -> list[int]:
    """Blocks shuffled, `window` of them laid side by side, what is in them shuffled."""
    blocks = [list(range(i, min(i + block, count))) for i in range(0, count, block)]
    shuffled = [blocks[i] for i in permutation(len(blocks), seed, epoch, 1)]
    order: list[int] = []
    for number, first in enumerate(range(0, len(shuffled), window)):
        samples = [sample for one in shuffled[first : first + window] for sample in one]
        order += [samples[i] for i in permutation(len(samples), seed, epoch, 2 + number)]
    return order


def mixture(weights: list[int], seed: int, period: int) -> list[tuple[int, int]]:
    """(set, draw) of each place of one period."""
    slots = [
        (i, period * weight + n) for i, weight in enumerate(weights) for n in range(weight)
    ]
    return [slots[i] for i in permutation(len(slots), seed, period, 2**63)]
