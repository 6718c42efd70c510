"""A worker's pull and push over the socket of a table server, beside the same bytes alone.

    python3 -m bench.tables.channel --rounds 60

A batch of 4,096 × 26 distinct keys, rows of 16 floats with Adagrad. A round of ours looks all rows
up and pushes a gradient for each: frames with hashes, the division by partition, the work on
the rows, the test for NaN and the tag. The peer sends as many bytes as these frames have over
a bare Unix socket between two processes, in the same four messages. Rounds take turns.
"""

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from paceline._native import Bags, GradientSum, OptimizerSpec, Tables

from bench.harness import Samples, machine

KEYS, DIM, ROWS = 4_096 * 26, 16, 1_000_000
HEAD = 48


def serve(directory: Path, binary: str) -> subprocess.Popen[bytes]:
    path = directory / "server"
    env = {name: value for name, value in os.environ.items() if name != "PACELINE_LEASE_SOCKET"}
    process = subprocess.Popen(
        [binary, "server", "--socket", path, "--dir", directory / "tables", "--job-id", "bench",
         "--number", "0", "--servers", "1"], env=env)
    while not path.exists():
        time.sleep(0.01)
    return process


def whole(call: Callable[[], object]) -> None:
    while True:
        answer = call()
        if answer is not None and answer is not False:
            return


class Ours:
    def __init__(self, sockets: str) -> None:
        self.tables = Tables.served(sockets, "bench")
        rule = OptimizerSpec()
        rule.name, rule.rate = "adagrad", 0.05
        whole(lambda: self.tables.open("ads", DIM, rule, 0, 0.05, 0))
        self.rows = array("f", bytes(4 * KEYS * DIM))
        self.step = 0

    def round(self, keys: "array[int]") -> float:
        bags = Bags.of_width(keys.buffer_info(), 1, is_mean=False)
        gradient = GradientSum(DIM)
        gradient.add(bags, self.rows.buffer_info())
        self.step += 1
        begin = time.perf_counter()
        whole(lambda: self.tables.look_up(0, DIM, bags, True, self.rows.buffer_info()))
        batch = [(self.step * KEYS, self.step * KEYS + KEYS)]
        whole(lambda: self.tables.push("clicks", batch, 0, 1, 0, [(0, gradient)]))
        return time.perf_counter() - begin


def take(peer: socket.socket, into: memoryview) -> None:
    have = 0
    while have < len(into):
        got = peer.recv_into(into[have:])
        if got == 0:
            os._exit(0)
        have += got


class Bare:
    """The other end is a forked process, so that the interpreter's lock is not shared."""

    PULL, ROWS_BACK = HEAD + KEYS * 8, HEAD + KEYS * DIM * 4
    PUSH, TOLD = HEAD + 72 + KEYS * (8 + DIM * 4), HEAD

    def __init__(self) -> None:
        self.peer, other = socket.socketpair(socket.AF_UNIX)
        self.bytes = memoryview(bytearray(max(self.PUSH, self.ROWS_BACK)))
        if os.fork() == 0:
            self.peer.close()
            while True:
                take(other, self.bytes[: self.PULL])
                other.sendall(self.bytes[: self.ROWS_BACK])
                take(other, self.bytes[: self.PUSH])
                other.sendall(self.bytes[: self.TOLD])
        other.close()

    def round(self) -> float:
        begin = time.perf_counter()
        self.peer.sendall(self.bytes[: self.PULL])
        take(self.peer, self.bytes[: self.ROWS_BACK])
        self.peer.sendall(self.bytes[: self.PUSH])
        take(self.peer, self.bytes[: self.TOLD])
        return time.perf_counter() - begin


def main() -> None:
    options = argparse.ArgumentParser(description="Pull and push over a table server's socket.")
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--binary", default=str(Path(sys.executable).parent / "paceline"))
    args = options.parse_args()
    assert threading.active_count() == 1
    print(machine(), file=sys.stderr)
    samples = Samples("tables_channel")
    chance = random.Random(1)
    bare = Bare()
    with tempfile.TemporaryDirectory() as folder:
        server = serve(Path(folder), args.binary)
        try:
            ours = Ours(str(Path(folder) / "server"))
            pairs: list[tuple[float, float]] = []
            for turn in range(args.rounds + 5):
                keys = array("q", chance.sample(range(ROWS), KEYS))
                pair = ours.round(keys), bare.round()
                if turn < 5:
                    continue  # rows are admitted, and buffers grow
                pairs.append(pair)
                for name, seconds in zip(("ours", "bare"), pair, strict=True):
                    samples.add(name, seconds, keys=KEYS, dim=DIM)
        finally:
            server.terminate()
            server.wait()
    ratios = sorted(peer / own for own, peer in pairs)
    print(f"tables_channel: ours {statistics.median(own for own, _ in pairs) * 1e3:.1f} ms | bare "
          f"{statistics.median(peer for _, peer in pairs) * 1e3:.1f} ms | ratio "
          f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), n {len(ratios)}")


if __name__ == "__main__":
    main()
