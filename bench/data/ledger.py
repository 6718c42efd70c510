"""How large a checkpoint of a data set's ledger is, and how long it takes to write and to read.

    ninja -C build/release bench_ledger
    .venv/bin/python -m bench.data.ledger --rounds 20 --peer VENV/bin/python

50,000 shards of 100 samples, half of them given out one by one to 1,000 workers, 1,000 of those not
done, at random places. Ours is what the journal keeps at a mark: the ranges that are done, as text.
`--peer` is an interpreter that has dlrover 0.6.1: its dataset manager's checkpoint, as its master
stores it. Both begin from their ledger in memory and end with the text, and the other way round.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.harness import BENCH, Samples, machine


def main() -> None:
    options = argparse.ArgumentParser(description="The checkpoint of a ledger of 50,000 shards.")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--peer", default="")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("data_ledger")
    commands = {"ours": [str(BENCH.parent / "build" / "release" / "bench" / "bench_ledger")]}
    if args.peer:
        commands["dlrover"] = [args.peer, str(Path(__file__).with_name("ledger_peer.py"))]
    text: list[str] = []
    for name, command in commands.items():
        done = subprocess.run([*command, str(args.rounds)], stdout=subprocess.PIPE, text=True,
                              check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for row in rows:
            samples.add(name, row["write"], bytes=row["bytes"], read=row["read"])
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        text.append(
            f"{name} {middle['bytes']:.0f} bytes, written in {middle['write'] * 1e3:.2f} ms, "
            f"read in {middle['read'] * 1e3:.2f} ms, n {len(rows)}"
        )
    print("data_ledger: " + " | ".join(text))


if __name__ == "__main__":
    main()
