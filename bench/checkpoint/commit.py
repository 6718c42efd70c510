"""How long after the last shard is durable is the checkpoint committed, with 512 ranks?

    ninja -C build/release paceline bench_commit
    .venv/bin/python -m bench.checkpoint.commit --rounds 20

A real master; 512 light agents of one rank in one process (commit.cc), each with a
socket of its own. Shards, parts and the manifest are real files, written by the code that agents
use, 1,000 bytes of tensor each: the bytes are not what is asked here. `alone`: one shard is late,
all others were told before. `together`: all 512 reports come at once. The clock begins when the
last report is sent and ends when every agent was told that the step is durable; it holds the
journal's fsync, the commit and its fsyncs, and the light agents' own work on the same cores.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.fleet.agents import BUILD, Case, make_run_dir, wait_for_address
from bench.harness import Samples, machine


def main() -> None:
    options = argparse.ArgumentParser(description="Commit after the last shard, light ranks.")
    options.add_argument("--build", type=Path, default=BUILD, help="build tree of both binaries")
    options.add_argument("--ranks", type=int, default=512)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--directory", type=Path, help="where the checkpoints go; a temporary one")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint_commit")
    run_dir = make_run_dir(Case(agents=args.ranks, connections=0), spares=0)
    directory = Path(tempfile.mkdtemp(prefix="paceline-bench-commit-", dir=args.directory))
    binary = args.build / "src" / "paceline" / "cli" / "paceline"
    with (run_dir / "master.log").open("wb") as log:
        command = [str(binary), "master", "--run-dir", str(run_dir), "--listen", "127.0.0.1:0"]
        master = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        address = wait_for_address(run_dir, master)
        command = [str(args.build / "bench" / "bench_commit"), address, str(run_dir / "token")]
        command += [str(args.ranks), str(directory), str(args.rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print((run_dir / "master.log").read_text()[-2000:], file=sys.stderr)
            raise SystemExit("the light agents did not finish")
    finally:
        master.send_signal(signal.SIGKILL)
        master.wait()
        shutil.rmtree(run_dir, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)
    parts: list[str] = []
    for name in ("alone", "together"):
        rows = [row for row in map(json.loads, done.stdout.splitlines())
                if row["alone"] == (name == "alone")]
        for row in rows:
            samples.add(name, row["all_told"], ordered=row["ordered"], committed=row["committed"])
        told = [row["all_told"] for row in rows]
        visible = statistics.median(row["committed"] for row in rows)
        parts.append(f"{name}: all told p50 {statistics.median(told) * 1e3:.1f} ms, max "
                     f"{max(told) * 1e3:.1f} ms, visible p50 {visible * 1e3:.1f} ms, n {len(rows)}")
    print(f"checkpoint_commit, {args.ranks} ranks: " + " | ".join(parts))


if __name__ == "__main__":
    main()
