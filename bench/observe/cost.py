"""What does a job pay for being looked at, and how much does its journal grow?

    .venv/bin/python -m bench.observe.cost --pairs 8 --seconds 20

One job, whose ranks train small_ddp.py. Windows without and with observers alternate, so that both
are of the same processes. The observers are a reader of the page (the page, its data, the heat map
each 10 s, the event stream), and a scrape of the metrics each second. The CPU seconds are those of
the ranks, and apart of the job's other processes: launcher, master, agent, starter. Those of the
observers, which are threads of this script, do not count.

Sums by phase cannot be switched off. `--turns` measures what one change of the phase costs, with
its sum and its record.
"""

import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.harness import (
    Job,
    Samples,
    cpu_seconds,
    descendants,
    finish,
    paceline,
    parser,
    prepare,
)

DAY_S = 86_400
PHASES_A_STEP = 4  # data, forward, backward, optimizer


class Observers:
    """A page and a scraper, as long as the block lasts."""

    def __init__(self, address: str, session: str, token: str) -> None:
        self.address, self.session, self.token = address, session, token
        self.over = threading.Event()
        self.scrapes = self.events = self.bytes = 0
        self.wrong: list[str] = []
        self.feed = http.client.HTTPConnection(address, timeout=30)
        self.threads = [
            threading.Thread(target=self.guard, args=(work,), daemon=True)
            for work in (self.scrape, self.follow, self.look)
        ]

    def __enter__(self) -> "Observers":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def guard(self, work: Any) -> None:
        try:
            work()
        except OSError as error:
            self.wrong.append(f"{work.__name__}: {error}")

    def get(self, path: str, token: str) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        self.bytes += len(answer.read())
        connection.close()
        if answer.status != 200:
            self.wrong.append(f"{path}: {answer.status}")

    def scrape(self) -> None:
        due = time.monotonic()
        while not self.over.is_set():
            self.get("/metrics", self.token)
            self.scrapes += 1
            due += 1
            self.over.wait(max(0.0, due - time.monotonic()))

    def look(self) -> None:
        for path in ("/", "/api/page"):
            self.get(path, self.session)
        while not self.over.is_set():
            self.get("/api/heat", self.session)
            self.over.wait(10)

    def follow(self) -> None:
        """The pulse comes each 2 s, so the end is seen within that time."""
        self.feed.request("GET", "/api/feed", headers={"Authorization": f"Bearer {self.session}"})
        answer = self.feed.getresponse()
        while not self.over.is_set():
            line = answer.readline()
            self.bytes += len(line)
            self.events += line.startswith(b"event:")
            if not line:
                self.wrong.append("the event stream ended")
                break
        self.feed.close()


def session_of(binary: Path, run_dir: Path) -> tuple[str, str]:
    command = [str(binary / "paceline"), "open", "--json", "--job", str(run_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = urlsplit(json.loads(done.stdout)["url"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", "/api/session", body=parts.fragment.removeprefix("code="))
    session = json.loads(connection.getresponse().read())["session"]
    connection.close()
    return parts.netloc, session


def journal_bytes(run_dir: Path) -> tuple[int, int, int]:
    """Records, their bytes, and those of the file's pages."""
    path = run_dir / "journal.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as base:
        columns = [row[1] for row in base.execute("pragma table_info(records)")]
        size = " + ".join(f"coalesce(length({name}), 0)" for name in columns)
        count, content = base.execute(f"select count(*), sum({size}) from records").fetchone()
        pages = base.execute("pragma page_count").fetchone()[0]
        page = base.execute("pragma page_size").fetchone()[0]
    return count, content, pages * page


def window(
    job: Job, ranks: list[int], others: list[int], seconds: float
) -> dict[str, float]:
    before = (time.monotonic(), cpu_seconds(ranks), cpu_seconds(others))
    time.sleep(seconds)
    after = (time.monotonic(), cpu_seconds(ranks), cpu_seconds(others))
    stamps = [s for s in job.stamps() if s.rank == 0 and before[0] <= s.at <= after[0]]
    wall = after[0] - before[0]
    return {
        "wall_s": wall,
        "steps": stamps[-1].step - stamps[0].step,
        "rank_cpu_s": after[1] - before[1],
        "rank_cpu_ms_a_step": 1000 * (after[1] - before[1])
        / ((stamps[-1].step - stamps[0].step) * wall / (stamps[-1].at - stamps[0].at)),
        "other_cpu_s": after[2] - before[2],
        "load": os.getloadavg()[0],
    }


def show(off: list[dict[str, float]], on: list[dict[str, float]]) -> None:
    """The others' cost is a difference that is seen; that of the ranks is inside their noise."""
    more = [
        100 * (b["other_cpu_s"] / b["wall_s"] - a["other_cpu_s"] / a["wall_s"])
        / ((a["rank_cpu_s"] + a["other_cpu_s"]) / a["wall_s"])
        for a, b in zip(off, on, strict=True)
    ]
    ranks = [
        100 * (b["rank_cpu_ms_a_step"] / a["rank_cpu_ms_a_step"] - 1)
        for a, b in zip(off, on, strict=True)
    ]
    for name, values in (("launcher, master, agent", more), ("ranks, by step", ranks)):
        error = statistics.stdev(values) / len(values) ** 0.5
        print(
            f"observe: {name}: {statistics.median(values):+.3f} % of the job's CPU seconds "
            f"(mean {statistics.mean(values):+.3f} ± {error:.3f}, "
            f"{min(values):+.3f} to {max(values):+.3f}, {len(values)} pairs)"
        )


def turns(samples: Samples) -> None:
    from paceline._native import FlightWriter

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        writer = FlightWriter.make(f"{folder}/rank-0.bench.ring", 1, 0)
        count = 200_000
        for _ in range(6):
            began = time.process_time_ns()
            for number in range(count):
                writer.turn(2 + number % PHASES_A_STEP)
            each = (time.process_time_ns() - began) / count
            samples.add("turn", each / 1e9, ns=round(each, 1))
    middle = statistics.median(samples.of("turn"))
    print(f"observe: a change of the phase {middle * 1e9:.0f} ns of CPU time, "
          f"{PHASES_A_STEP} a step: {PHASES_A_STEP * middle * 1e6:.2f} µs")


def main() -> None:
    options = parser("CPU seconds of a job with a page and scrapes against without, in turns.")
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--width", type=int, default=512)
    options.add_argument("--turns", action="store_true", help="only the cost of a change of phase")
    args = options.parse_args()
    prepare()
    samples = Samples("observe")
    if args.turns:
        turns(samples)
        return
    flags = ("--standalone", "--nproc-per-node", "2", "--run-dir", "{run_dir}")
    off: list[dict[str, float]] = []
    on: list[dict[str, float]] = []
    script = ("--every", "5", "--width", str(args.width))
    with Job([paceline(args.bin, *flags)], script_args=script) as job:
        first = job.first_steps(ranks=range(2), after=job.started, within=300)
        if first is None:
            print(job.tail(), file=sys.stderr)
            raise SystemExit("the job did not start")
        time.sleep(5)  # the first steps are not like the others
        run_dir = job.dir / "run"
        ranks = [stamp.pid for stamp in first.values()]
        others = [pid for pid in descendants(os.getpid()) if pid not in ranks]
        began, grown = time.monotonic(), journal_bytes(run_dir)
        address, session = session_of(args.bin, run_dir)
        token = (run_dir / "reading_token").read_text().strip()
        for number in range(args.pairs):
            for is_on in (False, True) if number % 2 == 0 else (True, False):
                if is_on:
                    with Observers(address, session, token) as seen:
                        row = window(job, ranks, others, args.seconds)
                    if seen.wrong or seen.scrapes < args.seconds / 2 or seen.events < 1:
                        raise SystemExit(f"the observers did not observe: {seen.wrong}")
                    row |= {"scrapes": seen.scrapes, "events": seen.events, "bytes": seen.bytes}
                else:
                    row = window(job, ranks, others, args.seconds)
                (on if is_on else off).append(row)
                samples.add("on" if is_on else "off", row["wall_s"], pair=number,
                            **{name: round(value, 6) for name, value in row.items()})
        lasted, after = time.monotonic() - began, journal_bytes(run_dir)
        records, content, pages = (b - a for a, b in zip(grown, after, strict=True))
        samples.add("journal", lasted, records=records, content=content, pages=pages)
    finish()
    show(off, on)
    print(
        f"observe: journal {records} records in {lasted:.0f} s, {content} bytes: "
        f"{content / lasted * DAY_S / 1e6:.2f} MB a day, of pages "
        f"{pages / lasted * DAY_S / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
