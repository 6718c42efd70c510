"""How long from an event to a served answer that has it; and versions that are seen by halves.

    .venv/bin/python -m bench.data.event_to_served --seconds 30 --requests 100000
    .venv/bin/python -m bench.data.event_to_served --workers 2 --servers 2

Events are written into files, a file each. A training reads them as a live stream, adds 1 to a row
of its own and to one of each of two tables, and publishes versions. An event's time is from just
before its file is written until a reader's version has its row. Meanwhile, threads make requests:
each takes one version and compares 20 rows of both tables, which are equal in every whole version.
With several workers they need not be equal, because a version is no moment of all workers; then
only the times are measured.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.harness import Samples, machine, percentile

KEYS = 1_000  # of both tables
COMPARED = 20  # rows of a request


def train(url: str, serve: str, every: float) -> None:
    """The training's process."""
    import paceline.embedding as pe
    import torch
    from paceline.torch import LeasedLoader, Stream

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of = torch.nn.ModuleDict({
                name: pe.Embedding(pe.Table(name, dim=4, optimizer=pe.SGD(1.0), scale=0.0))
                for name in ("events", "left", "right")})

        def forward(self, n: torch.Tensor) -> torch.Tensor:
            key = n % KEYS
            rows = (self.of["events"](n), self.of["left"](key), self.of["right"](key))
            return sum(one.sum() for one in rows)  # pyright: ignore[reportReturnType]

    model = Counts()
    opt = pe.Optimizer(model)
    pe.Publish(serve, opt, every=every)
    stream = Stream(url, decode=lambda row: torch.tensor(row["n"]), name="events")
    for batch in LeasedLoader(stream, batch_size=256, wait=0.05):
        (-model(batch)).backward()
        opt.step()


class Events:
    """Writes events, and notes when."""

    def __init__(self, folder: Path, rate: float) -> None:
        folder.mkdir()
        self.folder, self.rate = folder, rate
        self.written: dict[int, float] = {}  # not served yet

    def write(self, number: int) -> None:
        import pyarrow
        import pyarrow.parquet

        path = self.folder / f"{number:09}.parquet"
        hidden = path.with_name(f".{path.name}")
        self.written[number] = time.monotonic()
        pyarrow.parquet.write_table(pyarrow.table({"n": [number]}), hidden)
        hidden.rename(path)

    def run(self, seconds: float) -> int:
        began = time.monotonic()
        number = 0
        while (now := time.monotonic() - began) < seconds:
            if now < number / self.rate:
                time.sleep(number / self.rate - now)
            self.write(number)
            number += 1
        return number


class Requests:
    """Threads that compare rows of two tables in one version each."""

    def __init__(self, reader: Any, threads: int) -> None:
        self.reader = reader
        self.made = self.halves = 0
        self.versions: set[int] = set()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._is_over.is_set():
            version = self.reader.version()
            keys = [chance.randrange(KEYS) for _ in range(COMPARED)]
            left = version.rows("left", keys)
            time.sleep(0)  # another thread may take the next version here
            is_half = bool((left != version.rows("right", keys)).any())
            with self._lock:
                self.made += 1
                self.halves += is_half
                self.versions.add(version.number)

    def end(self, least: int) -> None:
        while self.made < least:
            time.sleep(0.05)
        self._is_over.set()
        for thread in self._threads:
            thread.join()


def wait_for_version(serve: Path, training: "subprocess.Popen[bytes]") -> None:
    while not (serve / "CURRENT").exists():
        if training.poll() is not None:
            raise RuntimeError("the training has ended")
        time.sleep(0.05)


def follow(reader: Any, events: Events, found: list[float], is_over: threading.Event) -> None:
    """Notes when an event's row is served."""
    while events.written or not is_over.is_set():
        waiting = list(events.written)
        rows = reader.version().rows("events", waiting)[:, 0] if waiting else []
        now = time.monotonic()
        for number, count in zip(waiting, rows, strict=True):
            if count > 0:
                found.append(now - events.written.pop(number))
        time.sleep(0.005)


def measure(given: argparse.Namespace, folder: Path) -> None:
    from paceline.serving import Reader

    serve = folder / "serve"
    events = Events(folder / "events", given.rate)
    words = ["--train", f"files://{folder}/events/*.parquet", str(serve), str(given.every)]
    own = [str(Path(__file__).resolve()), *words]
    python = [sys.executable]
    if given.servers:
        python = [str(Path(sys.executable).with_name("paceline")), "run", "--run-dir",
                  str(folder / "run"), "--workers", str(given.workers), "--ps", str(given.servers),
                  "--tables", str(folder / "tables")]
    training = subprocess.Popen([*python, *own], stderr=subprocess.DEVNULL)
    try:
        events.write(10**8)  # the first version has its row
        wait_for_version(serve, training)
        events.written.clear()
        found: list[float] = []
        is_over = threading.Event()
        with Reader(serve) as reader:
            watching = threading.Thread(target=follow, args=(reader, events, found, is_over))
            watching.start()
            is_one = not given.servers or given.workers == 1
            requests = Requests(reader, given.threads if is_one else 0)
            written = events.run(given.seconds)
            is_over.set()
            watching.join()
            requests.end(given.requests if is_one else 0)
    finally:
        training.terminate()
        training.wait()
    found.sort()
    p50, p99 = statistics.median(found), percentile(found, 99)
    where = f"{given.workers} workers, {given.servers} servers" if given.servers else "one process"
    Samples("event_to_served").add(
        where, p99, p50=p50, most=found[-1], events=written, rate=given.rate, every=given.every,
        requests=requests.made, halves=requests.halves, versions=len(requests.versions))
    print(f"{written} events: p50 {p50:.2f} s, p99 {p99:.2f} s, the longest {found[-1]:.2f} s")
    if requests.made:
        print(f"{requests.made} requests saw {len(requests.versions)} versions, "
              f"{requests.halves} of them by halves")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", nargs=3, metavar=("URL", "SERVE", "EVERY"))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=20.0, help="events a second")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two versions")
    parser.add_argument("--requests", type=int, default=100_000, help="at least")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--servers", type=int, default=0, help="0: tables in the process")
    given = parser.parse_args()
    if given.train:
        train(given.train[0], given.train[1], float(given.train[2]))
        return
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        measure(given, Path(name))


if __name__ == "__main__":
    main()
