"""How fast an image comes from another host's memory, against the same bytes over a bare socket.

    ninja -C build/release bench_peer_fetch
    .venv/bin/python -m bench.checkpoint.peer_fetch --rounds 5

Everything is on loopback, between two processes (peer_fetch.cc), in alternating order. A
fetch is all that an agent does: dial, prove, ask, take each chunk into its slot and verify it,
seal. The bare socket's bytes go into one warm piece of memory again and again, which is kinder to
it. The first fetch makes its arena, and is told apart.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench.harness import BENCH, Samples, machine

PROGRAM = BENCH.parent / "build" / "release" / "bench" / "bench_peer_fetch"


def main() -> None:
    options = argparse.ArgumentParser(description="An image from another host against loopback.")
    options.add_argument("--rounds", type=int, default=5, help="after the first")
    options.add_argument("--bytes", type=int, default=2**30)
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("peer_fetch")
    folder = tempfile.mkdtemp(prefix="paceline-bench-", dir="/dev/shm")
    try:
        command = [str(PROGRAM), folder, str(args.bytes), str(args.rounds + 1)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        shutil.rmtree(folder)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        samples.add(row["what"], row["seconds"], round=row["round"], bytes=row["bytes"],
                    cpu=row["cpu"])

    def rate(what: str) -> float:
        return args.bytes / 1e9 / statistics.median(
            row["seconds"] for row in rows if row["what"] == what and row["round"] > 0)

    raw, sendfile, fetch, tls = (
        rate(what) for what in ("raw_send", "raw_sendfile", "fetch", "fetch_tls"))
    first = next(row["seconds"] for row in rows if row["what"] == "fetch")
    print(f"peer_fetch: {fetch:.2f} GB/s, {fetch / raw:.2f} of send() ({raw:.2f}) and "
          f"{fetch / sendfile:.2f} of sendfile() ({sendfile:.2f}); with TLS {tls:.2f} GB/s; "
          f"the first, which makes its arena, {args.bytes / 1e9 / first:.2f} GB/s")


if __name__ == "__main__":
    main()
