"""Writes events for online_train.py: python examples/online_events.py --events DIR --user 17 --ad 7

A file gets its name when it is complete, so the training never reads half of it.
"""

import argparse
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet


def write(folder: Path, rows: list[dict[str, object]]) -> Path:
    """The file of these events."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.time_ns()}.parquet"
    hidden = path.with_name(f".{path.name}")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), hidden)
    hidden.rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--user", type=int, required=True)
    parser.add_argument("--ad", type=int, required=True)
    parser.add_argument("--seen", type=int, nargs=3, default=[1, 2, 3])
    parser.add_argument("--not-clicked", action="store_true")
    parser.add_argument("--times", type=int, default=20)
    args = parser.parse_args()
    event = {"user": args.user, "seen": args.seen, "ad": args.ad, "click": not args.not_clicked}
    print(write(args.events, [event] * args.times))


if __name__ == "__main__":
    main()
