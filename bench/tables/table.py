"""How many rows of a table are read and changed a second, and how many bytes a row takes.

    sudo apt-get install libtbb-dev      # the peer; only this benchmark needs it
    ninja -C build/release bench_table
    python3 -m bench.tables.table --rounds 5

10 million rows with 16 floats and Adagrad, two threads. A round is 40 batches of 4,096 × 26 keys,
each key once in a batch: all are looked up, then all are changed by a gradient. Ours has everything
on: the tag of the batch, the test for NaN, the budget's count. The peer is
`tbb::concurrent_hash_map` with the row as its value, an accessor a key, and the same kernel.
Rounds of ours and of the peer take turns in one process, over the same keys.
"""

import argparse
import json
import statistics
import subprocess
import sys

from bench.harness import BENCH, Samples, machine

ROWS = 10_000_000


def main() -> None:
    options = argparse.ArgumentParser(description="Lookups and updates of a table of 10 M rows.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--zipf", type=float, default=0, help="exponent; 0: uniform keys")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("tables_table")
    program = BENCH.parent / "build" / "release" / "bench" / "bench_table"
    done = subprocess.run([str(program), str(args.rows), str(args.zipf), str(args.rounds)],
                          stdout=subprocess.PIPE, text=True, check=True)
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rounds:
        samples.add(row["name"], 1 / row["both"], rows=args.rows, zipf=args.zipf,
                    lookups=row["lookup"], updates=row["update"],
                    bytes_a_row=row["bytes_a_row"])
    text: list[str] = []
    for name in ("ours", "tbb"):
        mine = [row for row in rounds if row["name"] == name]
        middle = {key: statistics.median(row[key] for row in mine)
                  for key in ("lookup", "update", "both", "bytes_a_row")}
        text.append(f"{name} {middle['lookup'] / 1e6:.1f} M lookups/s, "
                    f"{middle['update'] / 1e6:.1f} M updates/s, "
                    f"both {middle['both'] / 1e6:.2f} M/s, "
                    f"{middle['bytes_a_row']:.0f} bytes a row, n {len(mine)}")
    pairs = zip(rounds[::2], rounds[1::2], strict=True)  # ours, then the peer
    ratios = [ours["both"] / peer["both"] for ours, peer in pairs]
    text.append(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print("tables_table: " + " | ".join(text))


if __name__ == "__main__":
    main()
